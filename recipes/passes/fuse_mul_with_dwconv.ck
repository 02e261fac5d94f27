# SPDX-License-Identifier: Apache-2.0
# Done: (dwconv(x, w) + b) * scale  ==  dwconv(x, w * scale) + b * scale.

graph main(%x: f32[1,5,4,2]) -> %z {
  %w = const f32[1,2,3,6] gaussian(0, 1)
  %y = DepthwiseConv2D(%x, %w) {depth_multiplier: 3}
  %z = Mul(%y, 0.5) {act: RELU}
}

rules {
  passes(fuse_mul_with_dwconv)
  order(DepthwiseConv2D)
}
