# SPDX-License-Identifier: Apache-2.0
# Refused: the scale is along the width, not along the channels.

graph main(%x: f32[1,2,2,1]) -> %y {
  %w = const f32[3,3,3,1] gaussian(0, 0.3)
  %1 = TransposeConv([1,4,4,3], %w, %x) {padding: VALID}
  %2 = Mul(%1, [[[[2.0], [1.5], [0.5], [1.0]]]])
  %y = Add(%2, [-2.0, 0.1, 0.0])
}

rules {
  passes(fuse_batchnorm_with_tconv)
  unchanged()
  refused("expected [*,O")
}
