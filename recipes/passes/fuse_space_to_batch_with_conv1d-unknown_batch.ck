# SPDX-License-Identifier: Apache-2.0
# Refused: the number of sequences is unknown.

graph main(%x: f32[?,12,3]) -> %y {
  %w = const f32[4,1,3,3] gaussian(0, 0.3)
  %s = SpaceToBatchND(%x, [2], [[4,0]])
  %e = ExpandDims(%s, 1)
  %c = Conv2D(%e, %w, none) {padding: VALID}
  %q = Squeeze(%c) {squeeze_dims: [1]}
  %y = BatchToSpaceND(%q, [2], [[0,0]])
}

rules {
  passes(fuse_space_to_batch_with_conv1d)
  unchanged()
  refused("has shape [?,8,3], expected a static shape")
}
