# SPDX-License-Identifier: Apache-2.0
# Done: a convolution over blocks of two becomes one with dilation 2, with the padding of the blocks.

graph main(%x: f32[1,12,10,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %s = SpaceToBatchND(%x, [2,2], [[2,2],[2,2]])
  %c = Conv2D(%s, %w, none) {padding: VALID, act: RELU}
  %y = BatchToSpaceND(%c, [2,2], [[0,0],[0,0]])
}

rules {
  passes(fuse_space_to_batch_with_conv)
  order(Conv2D)
  attributes(%y, padding: SAME, dilation_h: 2, dilation_w: 2, act: RELU)
}
