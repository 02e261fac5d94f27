# SPDX-License-Identifier: Apache-2.0
# Refused: %s: comes from StridedSlice, expected a layer, a sum or moved rows

graph main(%x: f32[1,5,4,4]) -> %y {
  %w = const f32[4,1,1,4] gaussian(0, 1)
  %c = Conv2D(%x, %w, none) {padding: SAME}
  %s = StridedSlice(%c, [0,0,0,2], [1,5,4,3], [1,1,1,1]) {shrink_axis_mask: 8}
  %m = Mean(%s, [2]) {keep_dims: true}
  %y = Sub(%s, %m)
}

rules {
  passes(fuse_mean_subtraction)
  unchanged()
  refused("%s: comes from StridedSlice, expected a layer, a sum or moved rows")
}
