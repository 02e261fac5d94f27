# SPDX-License-Identifier: Apache-2.0
# Refused: %w: shape is [12,3,3,2], expected [O,_,_,I] with I = 4

graph main(%x: f32[1,4,4,4]) -> %y {
  %w = const f32[12,3,3,2] gaussian(0, 1)
  %c = Conv2D(%x, %w, none) {padding: SAME}
  %t = Transpose(%c, [0,3,1,2])
  %r = Reshape(%t, [1,3,2,2,4,4])
  %u = Transpose(%r, [0,1,4,2,5,3])
  %y = Reshape(%u, [1,3,8,8])
}

rules {
  passes(fuse_pixel_shuffle)
  unchanged()
  refused("%w: shape is [12,3,3,2], expected [O,_,_,I] with I = 4")
}
