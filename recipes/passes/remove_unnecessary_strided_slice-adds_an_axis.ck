# SPDX-License-Identifier: Apache-2.0
# Refused: %b: adds an axis

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = StridedSlice(%a, [0, 0], [2, 3], [1, 1]) {new_axis_mask: 1}
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_strided_slice)
  unchanged()
  refused("adds an axis")
}
