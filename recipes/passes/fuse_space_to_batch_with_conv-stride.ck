# SPDX-License-Identifier: Apache-2.0
# Refused: the convolution has stride 2.

graph main(%x: f32[1,12,10,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %s = SpaceToBatchND(%x, [2,2], [[2,2],[2,2]])
  %c = Conv2D(%s, %w, none) {padding: VALID, stride_h: 2}
  %y = BatchToSpaceND(%c, [2,2], [[0,0],[0,0]])
}

rules {
  passes(fuse_space_to_batch_with_conv)
  unchanged()
  refused("stride_h is 2")
}
