# SPDX-License-Identifier: Apache-2.0
# Refused: a Reshape computes at most one unknown dimension.

graph main(%x: f32[1,?,?]) -> %z {
  %z = StridedSlice(%x, [0,0,0], [1,0,0], [1,1,1]) {end_mask: 6, shrink_axis_mask: 1}
}

rules {
  passes(substitute_strided_slice_to_reshape)
  unchanged()
  refused("%z: has more than one unknown dimension: [?,?]")
}
