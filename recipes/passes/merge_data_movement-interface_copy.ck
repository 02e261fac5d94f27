# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is an output of the graph, and so is, or is an input, %x

graph main(%x: f32[2,3]) -> %y {
  %t = Transpose(%x, [1, 0])
  %y = Transpose(%t, [1, 0])
}

rules {
  passes(merge_data_movement)
  unchanged()
  refused("%y: is an output of the graph, and so is, or is an input, %x")
}
