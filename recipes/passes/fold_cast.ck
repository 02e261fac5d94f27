# SPDX-License-Identifier: Apache-2.0
# Done: CAST of a constant becomes a constant.

graph main(%x: f32[1,3]) -> %y {
  %r/input = const i32[3] [1, 2, 3]
  %r = Cast(%r/input) : f32[3]
  %y = Add(%x, %r) : f32[1,3]
}

rules {
  passes(fold_cast)
  order(Add)
}
