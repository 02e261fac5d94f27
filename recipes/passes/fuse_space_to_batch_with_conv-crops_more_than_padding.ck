# SPDX-License-Identifier: Apache-2.0
# Refused: the crops remove elements that are not padding.

graph main(%x: f32[1,12,10,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %s = SpaceToBatchND(%x, [2,2], [[0,0],[0,0]])
  %c = Conv2D(%s, %w, none) {padding: VALID}
  %y = BatchToSpaceND(%c, [2,2], [[1,0],[0,0]])
}

rules {
  passes(fuse_space_to_batch_with_conv)
  unchanged()
  refused("expected crops up to the padding, got a negative padding in total: [(-1, 0), (0, 0)]")
}
