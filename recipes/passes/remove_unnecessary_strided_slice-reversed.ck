# SPDX-License-Identifier: Apache-2.0
# Refused: the rows are reversed.

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = StridedSlice(%a, [0, 0], [0, 3], [-1, 1]) {begin_mask: 1, end_mask: 1}
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_strided_slice)
  unchanged()
  refused("%b: does not take all of axis 0")
}
