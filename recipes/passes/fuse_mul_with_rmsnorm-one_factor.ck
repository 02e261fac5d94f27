# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected 8 factors, one per channel, got 1

graph main(%x: f32[2,3,8]) -> %z {
  %n = RmsNorm(%x, [1.0]) {epsilon: 1e-5}
  %z = Mul(%n, [2.0])
}

rules {
  passes(fuse_mul_with_rmsnorm)
  unchanged()
  refused("expected 8 factors, one per channel, got 1")
}
