# SPDX-License-Identifier: Apache-2.0
# Refused: act is NONE, expected RELU

graph main(%x: f32[1,6,6,3]) -> %z {
  %w = const f32[3,3,3,3] gaussian(0, 1)
  %v = const f32[2,3,3,3] gaussian(0, 1)
  %c = Neg(%x)
  %m = Mul(%c, [2.0, 0.5, 1.5])
  %r = Add(%m, [0.1, -0.2, 0.3])
  %z = Conv2D(%r, %v, [1.0, 2]) {act: RELU6}
}

rules {
  passes(fuse_preactivation_batchnorm)
  unchanged()
  refused("act is NONE, expected RELU")
}
