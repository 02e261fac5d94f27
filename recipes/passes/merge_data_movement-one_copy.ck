# SPDX-License-Identifier: Apache-2.0
# Refused: %y: moves data from %x, an input of the graph, to an output of the graph; no operators that do so are cheaper

graph main(%x: f32[2,3]) -> %y {
  %y = Reshape(%x, [2, 3])
}

rules {
  passes(merge_data_movement)
  unchanged()
  refused("no operators that do so are cheaper")
}
