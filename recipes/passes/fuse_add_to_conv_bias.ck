# SPDX-License-Identifier: Apache-2.0
# Done: with VALID padding the offset of each channel moves into the bias.

graph main(%x: f32[1,5,5,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 0.3)
  %m = Add(%x, [2.0, 0.5])
  %y = Conv2D(%m, %w, [0.5, 1.0, -1.0]) {padding: VALID, act: RELU}
}

rules {
  passes(fuse_add_to_conv_bias)
  order(Conv2D)
}
