# SPDX-License-Identifier: Apache-2.0
# Refused: %b: removes axis 0

graph main(%x: f32[1,3]) -> %y {
  %a = Neg(%x)
  %b = StridedSlice(%a, [0, 0], [1, 3], [1, 1]) {shrink_axis_mask: 1}
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_strided_slice)
  unchanged()
  refused("removes axis 0")
}
