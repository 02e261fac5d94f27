# SPDX-License-Identifier: Apache-2.0
# Refused: BatchToSpaceND has another block shape than SpaceToBatchND.

graph main(%x: f32[1,12,10,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %s = SpaceToBatchND(%x, [2,2], [[2,2],[2,2]])
  %c = Conv2D(%s, %w, none) {padding: VALID}
  %y = BatchToSpaceND(%c, [1,4], [[0,0],[0,0]])
}

rules {
  passes(fuse_space_to_batch_with_conv)
  unchanged()
  refused("expected two equal blocks of 2 elements, got [2, 2] and [1, 4]")
}
