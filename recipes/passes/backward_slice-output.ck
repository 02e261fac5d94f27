# SPDX-License-Identifier: Apache-2.0
# Refused: %a: is an output of the graph

graph main(%x: f32[4,5]) -> %y, %a {
  %a = Relu(%x)
  %y = Slice(%a, [1, 0], [2, 5])
}

rules {
  passes(backward_slice)
  unchanged()
  refused("%a: is an output of the graph")
}
