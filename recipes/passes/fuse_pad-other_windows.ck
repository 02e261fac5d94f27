# SPDX-License-Identifier: Apache-2.0
# Refused: SAME padding would begin at the first row of the image.

graph main(%x: f32[1,8,8,3]) -> %z {
  %w = const f32[4,3,3,3] gaussian(0, 0.5)
  %p = Pad(%x, [[0, 0], [1, 1], [1, 1], [0, 0]])
  %z = Conv2D(%p, %w) {padding: VALID, stride_h: 2, stride_w: 2}
}

rules {
  passes(fuse_pad)
  unchanged()
  refused("%p: SAME padding of %x, f32[1,8,8,3], differs from [(0, 0), (1, 1), (1, 1), (0, 0)]")
}
