# SPDX-License-Identifier: Apache-2.0
# Refused: they do not commute with RELU

graph main(%x: f32[1,6,6,3]) -> %z {
  %w = const f32[3,3,3,3] gaussian(0, 1)
  %v = const f32[2,3,3,3] gaussian(0, 1)
  %c = Neg(%x)
  %m = Mul(%c, [2.0, 0.5, 0.0])
  %r = Add(%m, [0.1, -0.2, 0.3]) {act: RELU}
  %z = Conv2D(%r, %v, [1.0, 2]) {act: RELU6}
}

rules {
  passes(fuse_preactivation_batchnorm)
  unchanged()
  refused("expected only positive factors: others do not commute with RELU")
}
