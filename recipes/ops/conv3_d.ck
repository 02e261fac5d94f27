# SPDX-License-Identifier: Apache-2.0
# A convolution over depth, height and width.

graph main(%x: f32[1,3,4,4,2]) -> %y {
  %w = const f32[2,2,2,2,3] gaussian(0, 0.3)
  %y = Conv3D(%x, %w, none) {padding: VALID}
}
