# SPDX-License-Identifier: Apache-2.0
# Refused: %q: would need 2 Reshapes

graph main(%x: f32[4,1,2]) -> %a, %b {
  %q = StridedSlice(%x, [0, 0, 0], [2, 1, 2], [1, 1, 1]) {shrink_axis_mask: 2}
  %k = StridedSlice(%x, [2, 0, 0], [4, 1, 2], [1, 1, 1]) {shrink_axis_mask: 2}
  %a = Relu(%q)
  %b = Tanh(%k)
}

rules {
  passes(join_slices)
  unchanged()
  refused("%q: would need 2 Reshapes")
}
