# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected an elementwise operator of one value and constants of one element, got Add

graph main(%x: f32[2,3,4], %u: f32[2,12]) -> %y {
  %t/shape = const i32[2] [2, 12]
  %t = Reshape(%x, %t/shape) : f32[2,12]
  %y = Add(%t, %u) : f32[2,12]
}

rules {
  passes(forward_reshape_to_unaryop)
  unchanged()
  refused("expected an elementwise operator of one value and constants of one element, got Add")
}
