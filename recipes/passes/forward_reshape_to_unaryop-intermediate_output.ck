# SPDX-License-Identifier: Apache-2.0
# Refused: %t: is an output of the graph

graph main(%x: f32[2,3,4], %u: f32[2,12]) -> %y, %t {
  %t/shape = const i32[2] [2, 12]
  %t = Reshape(%x, %t/shape) : f32[2,12]
  %y = Relu(%t) : f32[2,12]
}

rules {
  passes(forward_reshape_to_unaryop)
  unchanged()
  refused("%t: is an output of the graph")
}
