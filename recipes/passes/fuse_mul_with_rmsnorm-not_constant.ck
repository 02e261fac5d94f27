# SPDX-License-Identifier: Apache-2.0
# Refused: %x: is not constant, expected const f32[*,D]

graph main(%x: f32[2,3,8]) -> %z {
  %n = RmsNorm(%x, [1.0]) {epsilon: 1e-5}
  %z = Mul(%n, %x)
}

rules {
  passes(fuse_mul_with_rmsnorm)
  unchanged()
  refused("%x: is not constant")
}
