# SPDX-License-Identifier: Apache-2.0
# A transposed convolution with stride 2.

graph main(%x: f32[1,2,2,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 0.3)
  %b = const f32[3] gaussian(0, 0.1)
  %y = TransposeConv([1,5,5,3], %w, %x, %b) {padding: VALID, stride_w: 2, stride_h: 2}
}
