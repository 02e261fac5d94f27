# SPDX-License-Identifier: Apache-2.0
# Refused: RELU stands between the factor and the convolution.

graph main(%x: f32[1,5,5,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 0.3)
  %m = Mul(%x, [2.0, 0.5]) {act: RELU}
  %y = Conv2D(%m, %w, none) {padding: SAME}
}

rules {
  passes(fuse_mul_to_conv_weights)
  unchanged()
  refused("%m: act is RELU, expected NONE")
}
