# SPDX-License-Identifier: Apache-2.0
# Refused: %y: comes from DepthwiseConv2D, expected a layer, a sum or moved rows

graph main(%x: f32[1,3,3,5]) -> %z {
  %w = const f32[1,1,1,5] gaussian(0, 1)
  %y = DepthwiseConv2D(%x, %w, none)
  %m = Mean(%y, [-1]) {keep_dims: true}
  %z = Sub(%y, %m)
}

rules {
  passes(fuse_mean_subtraction)
  unchanged()
  refused("%y: comes from DepthwiseConv2D, expected a layer, a sum or moved rows")
}
