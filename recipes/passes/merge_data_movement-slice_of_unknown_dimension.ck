# SPDX-License-Identifier: Apache-2.0
# Refused: where its elements go depends on other operands, or follows no regular pattern

graph main(%x: f32[?,4,6]) -> %y {
  %s = Slice(%x, [1, 0, 0], [-1, 4, 6])
  %t = Transpose(%s, [0, 2, 1])
  %u = Transpose(%t, [0, 2, 1])
  %y = Relu(%u)
}

rules {
  passes(merge_data_movement)
  ops(Slice: 1, Transpose: 0)
  refused("%s: where its elements go depends on other operands, or follows no regular pattern")
}
