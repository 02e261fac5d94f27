# SPDX-License-Identifier: Apache-2.0
# Done: conv(x, w) * scale + shift  ==  conv(x, w * scale) + shift.

graph main(%x: f32[1,5,4,2]) -> %z {
  %w = const f32[3,2,3,2] gaussian(0, 1)
  %y = Conv2D(%x, %w) {stride_h: 1, dilation_w: 1, padding: VALID}
  %m = Mul(%y, 0.75)
  %z = Add(%m, [-2.0, 0.1, 0.0]) {act: RELU6}
}

rules {
  passes(fuse_batchnorm_with_conv)
  order(Conv2D)
}
