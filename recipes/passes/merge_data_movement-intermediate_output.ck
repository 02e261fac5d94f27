# SPDX-License-Identifier: Apache-2.0
# Refused: %t: is an output of the graph

graph main(%x: f32[2,3,4]) -> %y, %t {
  %t = Transpose(%x, [2, 0, 1])
  %s = Transpose(%t, [1, 0, 2])
  %y = Relu(%s)
}

rules {
  passes(merge_data_movement)
  unchanged()
  refused("%t: is an output of the graph")
}
