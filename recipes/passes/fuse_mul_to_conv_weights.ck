# SPDX-License-Identifier: Apache-2.0
# Done: the scale of the input moves into the filter.

graph main(%x: f32[1,5,5,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 0.3)
  %m = Mul(%x, [2.0, 0.5])
  %y = Conv2D(%m, %w, [0.5, 1.0, -1.0]) {padding: SAME, act: RELU}
}

rules {
  passes(fuse_mul_to_conv_weights)
  order(Conv2D)
}
