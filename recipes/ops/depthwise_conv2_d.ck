# SPDX-License-Identifier: Apache-2.0
# A depthwise convolution with two filters per channel.

graph main(%x: f32[1,4,4,2]) -> %y {
  %w = const f32[1,3,3,4] gaussian(0, 0.3)
  %b = const f32[4] gaussian(0, 0.1)
  %y = DepthwiseConv2D(%x, %w, %b) {padding: VALID, depth_multiplier: 2}
}
