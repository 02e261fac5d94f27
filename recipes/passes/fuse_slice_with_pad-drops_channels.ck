# SPDX-License-Identifier: Apache-2.0
# Refused: the slice drops channels.

graph main(%x: f32[1,1,9,3]) -> %y {
  %w = const f32[4,1,3,3] gaussian(0, 1)
  %b = const f32[4] gaussian(0, 1)
  %p = Pad(%x, [[0,0],[0,0],[4,4],[0,0]])
  %c = Conv2D(%p, %w, %b) {padding: VALID, dilation_w: 2, act: RELU}
  %s = Slice(%c, [0,0,0,0], [1,1,9,3])
  %y = Exp(%s)
}

rules {
  passes(fuse_slice_with_pad)
  unchanged()
  refused("%s: with less padding, %c would not give the results that the slice takes")
}
