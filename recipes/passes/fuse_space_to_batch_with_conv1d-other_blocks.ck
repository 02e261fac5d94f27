# SPDX-License-Identifier: Apache-2.0
# Refused: only the first operator has blocks of two.

graph main(%x: f32[1,12,3]) -> %y {
  %w = const f32[4,1,3,3] gaussian(0, 0.3)
  %s = SpaceToBatchND(%x, [2], [[4,0]])
  %e = ExpandDims(%s, 1)
  %c = Conv2D(%e, %w, none) {padding: VALID}
  %q = Squeeze(%c) {squeeze_dims: [1]}
  %y = BatchToSpaceND(%q, [1], [[0,0]])
}

rules {
  passes(fuse_space_to_batch_with_conv1d)
  unchanged()
  refused("expected two equal blocks of 1 element, got [2] and [1]")
}
