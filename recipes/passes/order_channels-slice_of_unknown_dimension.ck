# SPDX-License-Identifier: Apache-2.0
# Refused: %s: is an output of the graph

graph main(%x: f32[?,4]) -> %s {
  %a = Slice(%x, [0, 0], [2, 4])
  %b = Slice(%x, [2, 0], [2, 4])
  %s = Concatenation(%a, %b) {axis: 1}
}

rules {
  passes(order_channels)
  unchanged()
  refused("%s: is an output of the graph")
}
