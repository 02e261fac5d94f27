# SPDX-License-Identifier: Apache-2.0
# Done: dwconv(x, w) * scale + shift  ==  dwconv(x, w * scale) + shift.

graph main(%x: f32[1,5,4,2]) -> %z {
  %w = const f32[1,2,3,6] gaussian(0, 1)
  %y = DepthwiseConv2D(%x, %w) {depth_multiplier: 3}
  %m = Mul(%y, 0.5)
  %z = Add(%m, 0.5)
}

rules {
  passes(fuse_batchnorm_with_dwconv)
  order(DepthwiseConv2D)
}
