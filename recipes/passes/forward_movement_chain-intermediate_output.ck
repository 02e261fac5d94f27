# SPDX-License-Identifier: Apache-2.0
# Refused: %b: is an output of the graph

graph main(%x: f32[1,6,4]) -> %y, %b {
  %a = Reshape(%x, [1,2,3,4]) {new_shape: [1,2,3,4]} : f32[1,2,3,4]
  %b = Transpose(%a, [0,2,1,3]) : f32[1,3,2,4]
  %y = Tanh(%b) : f32[1,3,2,4]
}

rules {
  passes(forward_movement_chain)
  unchanged()
  refused("%b: is an output of the graph")
}
