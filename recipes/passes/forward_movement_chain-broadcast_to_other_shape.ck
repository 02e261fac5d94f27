# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is broadcast to another shape, or a shape of the chain is unknown

graph main(%x: f32[1,6,4]) -> %y {
  %a = Reshape(%x, [1,2,3,4]) {new_shape: [1,2,3,4]} : f32[1,2,3,4]
  %b = Transpose(%a, [0,2,1,3]) : f32[1,3,2,4]
  %m = const f32[1,1,1,1,1] [2.0]
  %y = Mul(%b, %m) : f32[1,1,3,2,4]
}

rules {
  passes(forward_movement_chain)
  unchanged()
  refused("%y: is broadcast to another shape, or a shape of the chain is unknown")
}
