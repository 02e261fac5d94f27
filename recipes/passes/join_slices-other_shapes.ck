# SPDX-License-Identifier: Apache-2.0
# Refused: %q: the replacement, with its Reshapes, would have 3 operators instead of 2

graph main(%x: f32[4,1,2]) -> %a, %b {
  %q = StridedSlice(%x, [0, 0, 0], [2, 1, 2], [1, 1, 1]) {shrink_axis_mask: 2}
  %k = StridedSlice(%x, [2, 0, 0], [4, 1, 2], [1, 1, 1]) {shrink_axis_mask: 2}
  %a = Relu(%q)
  %b = Tanh(%k)
}

rules {
  passes(join_slices)
  unchanged()
  refused("%q: the replacement, with its Reshapes, would have 3 operators instead of 2")
}
