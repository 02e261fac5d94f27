# SPDX-License-Identifier: Apache-2.0
# Refused: %b: has other users

graph main(%x: f32[1,6,4]) -> %y, %z {
  %a = Reshape(%x, [1,2,3,4]) {new_shape: [1,2,3,4]} : f32[1,2,3,4]
  %b = Transpose(%a, [0,2,1,3]) : f32[1,3,2,4]
  %y = Tanh(%b) : f32[1,3,2,4]
  %z = Neg(%b) : f32[1,3,2,4]
}

rules {
  passes(forward_movement_chain)
  unchanged()
  refused("%b: has other users")
}
