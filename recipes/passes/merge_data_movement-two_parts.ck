# SPDX-License-Identifier: Apache-2.0
# Refused: two parts of the SPLIT are used, and two slices are more operators.

graph main(%x: f32[2,6]) -> %y, %z {
  %a, %b, %c = Split(1, %x) {num_splits: 3}
  %y = Relu(%b)
  %z = Tanh(%c)
}

rules {
  passes(merge_data_movement)
  unchanged()
  refused("moves data from %x, an input of the graph, to Relu %y and Tanh %z")
}
