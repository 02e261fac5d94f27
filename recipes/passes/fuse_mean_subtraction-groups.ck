# SPDX-License-Identifier: Apache-2.0
# Refused: %c: expected a convolution of all channels, got groups or an unknown number of channels

graph main(%x: f32[1,4,4,4]) -> %y {
  %w = const f32[12,3,3,2] gaussian(0, 1)
  %c = Conv2D(%x, %w, none) {padding: SAME}
  %m = Mean(%c, [3]) {keep_dims: true}
  %y = Sub(%c, %m)
}

rules {
  passes(fuse_mean_subtraction)
  unchanged()
  refused("%c: expected a convolution of all channels, got groups or an unknown number of channels")
}
