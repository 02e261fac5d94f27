# SPDX-License-Identifier: Apache-2.0
# Refused: the rows that are left are as many apart as the unknown dimension says

graph main(%x: f32[?,3,2,4]) -> %y {
  %p = Pack(%x, %x) {values_count: 2, axis: 1}
  %a, %b, %c = Unpack(%p) {num: 3, axis: 0}
  %t = Transpose(%a, [0, 2, 3, 1])
  %y = Relu(%t)
}

rules {
  passes(merge_data_movement)
  unchanged()
}
