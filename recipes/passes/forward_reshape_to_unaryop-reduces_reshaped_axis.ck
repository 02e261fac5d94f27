# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected a mean over axes below 1, which the Reshape keeps, got [1]

graph main(%x: f32[2,3,4], %u: f32[2,12]) -> %y {
  %t/shape = const i32[2] [2, 12]
  %y/axis = const i32[1] [1]
  %t = Reshape(%x, %t/shape) : f32[2,12]
  %y = Mean(%t, %y/axis) {keep_dims: true} : f32[2,1]
}

rules {
  passes(forward_reshape_to_unaryop)
  unchanged()
  refused("expected a mean over axes below 1, which the Reshape keeps, got [1]")
}
