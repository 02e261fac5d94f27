# SPDX-License-Identifier: Apache-2.0
# Refused: %c: shape is [3,1], expected [*,D]

graph main(%x: f32[2,3,8]) -> %z {
  %c = const f32[3,1] uniform(1, 2)
  %n = RmsNorm(%x, [1.0]) {epsilon: 1e-5}
  %z = Mul(%n, %c)
}

rules {
  passes(fuse_mul_with_rmsnorm)
  unchanged()
  refused("shape is [3,1]")
}
