# SPDX-License-Identifier: Apache-2.0
# Refused: %t: no operators that compute it are cheaper

graph main(%x: f32[2,3]) -> %y {
  %t = Transpose(%x, [1, 0])
  %y = Relu(%t)
}

rules {
  passes(merge_data_movement)
  unchanged()
  refused("%t: no operators that compute it are cheaper")
}
