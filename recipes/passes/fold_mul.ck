# SPDX-License-Identifier: Apache-2.0
# Done: MUL of constants becomes a constant.

graph main(%x: f32[1,3]) -> %y {
  %r/lhs = const f32[2,1] [1.0, -2.0]
  %r/rhs = const f32[3] [1.0, 2.0, 3.0]
  %r = Mul(%r/lhs, %r/rhs) {act: RELU} : f32[2,3]
  %y = Add(%x, %r) : f32[2,3]
}

rules {
  passes(fold_mul)
  order(Add)
}
