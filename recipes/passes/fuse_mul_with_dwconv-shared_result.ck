# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is also read by Neg %o

graph main(%x: f32[1,5,4,2]) -> %z, %o {
  %w = const f32[1,2,3,6] gaussian(0, 1)
  %y = DepthwiseConv2D(%x, %w) {depth_multiplier: 3}
  %z = Mul(%y, 0.5)
  %o = Neg(%y)
}

rules {
  passes(fuse_mul_with_dwconv)
  unchanged()
  refused("is also read by Neg")
}
