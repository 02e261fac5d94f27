# SPDX-License-Identifier: Apache-2.0
# Refused: SAME padding adds no channels.

graph main(%x: f32[1,8,8,3]) -> %z {
  %w = const f32[4,3,3,4] gaussian(0, 0.5)
  %p = Pad(%x, [[0, 0], [1, 1], [1, 1], [0, 1]])
  %z = Conv2D(%p, %w) {padding: VALID}
}

rules {
  passes(fuse_pad)
  unchanged()
  refused("%p: SAME padding of %x, f32[1,8,8,3], differs from")
}
