# SPDX-License-Identifier: Apache-2.0
# Refused: %t: is also read by Relu %z

graph main(%x: f32[2,3,4]) -> %y, %z {
  %t = Transpose(%x, [2, 0, 1])
  %s = Transpose(%t, [1, 0, 2])
  %y = Relu(%s)
  %z = Relu(%t)
}

rules {
  passes(merge_data_movement)
  unchanged()
  refused("%t: is also read by Relu %z")
}
