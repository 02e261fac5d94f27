# SPDX-License-Identifier: Apache-2.0
# A strided convolution with a bias and an activation.

graph main(%x: f32[1,6,6,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 0.3)
  %b = const f32[3] gaussian(0, 0.1)
  %y = Conv2D(%x, %w, %b) {padding: SAME, stride_w: 2, stride_h: 2, act: RELU6}
}
