# SPDX-License-Identifier: Apache-2.0
# Refused: the product has a fused activation, which the fused operator would lose.

graph main(%x: f32[1,6,6,2]) -> %y {
  %w = const f32[4,3,3,2] gaussian(0, 0.3)
  %1 = Conv2D(%x, %w, none) {padding: VALID}
  %2 = Mul(%1, [2.0, 1.5, 0.5, 1.0]) {act: RELU}
  %y = Add(%2, [-2.0, 0.1, 0.0, 1.0])
}

rules {
  passes(fuse_batchnorm_with_conv)
  unchanged()
  refused("act is RELU")
}
