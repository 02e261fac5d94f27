# SPDX-License-Identifier: Apache-2.0
# Refused: expected an elementwise operator of one value and constants of one element, got Add

graph main(%x: f32[1,6,4], %u: f32[1,3,2,4]) -> %y {
  %a = Reshape(%x, [1,2,3,4]) {new_shape: [1,2,3,4]} : f32[1,2,3,4]
  %b = Transpose(%a, [0,2,1,3]) : f32[1,3,2,4]
  %y = Add(%b, %u) : f32[1,3,2,4]
}

rules {
  passes(forward_movement_chain)
  unchanged()
  refused("expected an elementwise operator of one value and constants of one element, got Add")
}
