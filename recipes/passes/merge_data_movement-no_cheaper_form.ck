# SPDX-License-Identifier: Apache-2.0
# Refused: %t: moves data from %x, an input of the graph, to Relu %y; no operators that do so are cheaper

graph main(%x: f32[2,3]) -> %y {
  %t = Transpose(%x, [1, 0])
  %y = Relu(%t)
}

rules {
  passes(merge_data_movement)
  unchanged()
  refused("%t: moves data from %x, an input of the graph, to Relu %y; no operators that do so are cheaper")
}
