# SPDX-License-Identifier: Apache-2.0
# Done: rms_norm(x, gamma 1) * w  ==  rms_norm(x, w).

graph main(%x: f32[2,3,8]) -> %z {
  %g = const f32[1,1,8] uniform(1, 2)
  %n = RmsNorm(%x, [1.0]) {epsilon: 1e-5}
  %z = Mul(%g, %n)
}

rules {
  passes(fuse_mul_with_rmsnorm)
  order(RmsNorm)
}
