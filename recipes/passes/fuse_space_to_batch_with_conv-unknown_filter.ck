# SPDX-License-Identifier: Apache-2.0
# Refused: the padding depends on the size of the filter, which is unknown.

graph main(%x: f32[1,12,10,3], %w: f32[4,?,?,3]) -> %y {
  %s = SpaceToBatchND(%x, [2,2], [[2,2],[2,2]])
  %c = Conv2D(%s, %w, none) {padding: VALID}
  %y = BatchToSpaceND(%c, [2,2], [[0,0],[0,0]])
}

rules {
  passes(fuse_space_to_batch_with_conv)
  unchanged()
  refused("%y: %w has shape [4,?,?,3], expected a static shape")
}
