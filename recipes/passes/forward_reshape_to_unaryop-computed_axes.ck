# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected a mean with keep_dims over constant axes

graph main(%x: f32[2,3,4], %u: f32[2,12]) -> %y {
  %t/shape = const i32[2] [2, 12]
  %y/axis = const i32[1] [0]
  %t = Reshape(%x, %t/shape) : f32[2,12]
  %y = Mean(%t, %y/axis) : f32[12]
}

rules {
  passes(forward_reshape_to_unaryop)
  unchanged()
  refused("expected a mean with keep_dims over constant axes")
}
