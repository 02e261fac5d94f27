# SPDX-License-Identifier: Apache-2.0
# Refused: %r: expected square blocks of each channel, got shape [1,12,1,1,4,4]

graph main(%x: f32[1,4,4,2]) -> %y {
  %w = const f32[12,3,3,2] gaussian(0, 1)
  %b = const f32[12] gaussian(0, 1)
  %c = Conv2D(%x, %w, %b) {act: RELU}
  %t = Transpose(%c, [0,3,1,2])
  %r = Reshape(%t, [1,12,1,1,4,4])
  %u = Transpose(%r, [0,1,4,2,5,3])
  %y = Reshape(%u, [1,12,4,4])
}

rules {
  passes(fuse_pixel_shuffle)
  unchanged()
  refused("expected square blocks of each channel, got shape [1,12,1,1,4,4]")
}
