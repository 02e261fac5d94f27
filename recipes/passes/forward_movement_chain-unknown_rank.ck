# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is broadcast to another shape, or a shape of the chain is unknown

graph main(%x: f32[1,6,4], %s: i32[?]) -> %y {
  %a = Reshape(%x, %s) : f32[*]
  %b = Transpose(%a, [0,2,1,3]) : f32[*]
  %m = const f32[1,1,1,1,1] [2.0]
  %y = Mul(%b, %m) : f32[*]
}

rules {
  passes(forward_movement_chain)
  unchanged()
  refused("%y: is broadcast to another shape, or a shape of the chain is unknown")
}
