# SPDX-License-Identifier: Apache-2.0
# Done: RESHAPE of a constant becomes a constant.

graph main(%x: f32[1,3]) -> %y {
  %r/input = const f32[3] [1.0, 2.0, 3.0]
  %r/shape = const i32[2] [1, 3]
  %r = Reshape(%r/input, %r/shape) : f32[1,3]
  %y = Add(%x, %r) : f32[1,3]
}

rules {
  passes(fold_reshape)
  order(Add)
}
