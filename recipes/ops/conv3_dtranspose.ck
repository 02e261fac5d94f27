# SPDX-License-Identifier: Apache-2.0
# The gradient of a convolution over depth, height and width.

graph main(%x: f32[1,2,2,2,3]) -> %y {
  %w = const f32[2,2,2,1,3] gaussian(0, 0.3)
  %y = Conv3DTranspose([1,4,4,4,1], %w, %x) {padding: VALID, stride_d: 2, stride_w: 2, stride_h: 2}
}
