# SPDX-License-Identifier: Apache-2.0
# Refused: %x: 1 factors for a last dimension of 8

graph main(%x: f32[2,3,8]) -> %z {
  %n = RmsNorm(%x, [1.0]) {epsilon: 1e-5}
  %z = Mul(%n, [2.0])
}

rules {
  passes(fuse_mul_with_rmsnorm)
  unchanged()
  refused("1 factors for a last dimension of 8")
}
