# SPDX-License-Identifier: Apache-2.0
# Refused: the factor is not -1.

graph main(%mean: f32[1,4,1,1], %scale: f32[1,4,2,1]) -> %y {
  %n = Mul(%mean, -0.5)
  %m = Mul(%n, %scale)
  %y = Add(%m, 1.0)
}

rules {
  passes(fuse_neg)
  unchanged()
  refused("expected the constant -1")
}
