# SPDX-License-Identifier: Apache-2.0
# Refused: the scale is along the width, not along the channels.

graph main(%x: f32[1,6,6,2]) -> %y {
  %w = const f32[4,3,3,2] gaussian(0, 0.3)
  %1 = Conv2D(%x, %w, none) {padding: VALID}
  %2 = Mul(%1, [[[[2.0], [1.5], [0.5], [1.0]]]])
  %y = Add(%2, [-2.0, 0.1, 0.0, 1.0])
}

rules {
  passes(fuse_batchnorm_with_conv)
  unchanged()
  refused("expected [*,O")
}
