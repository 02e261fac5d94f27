# SPDX-License-Identifier: Apache-2.0
# Done: x * rsqrt(mean(x * x) + epsilon)  ==  rms_norm(x) with a gamma of 1, for circle.

graph main(%x: f32[2,3,8]) -> %z {
  %s = Mul(%x, %x)
  %m = Mean(%s, 2) {keep_dims: true}
  %a = Add(%m, 1e-6)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(fuse_rmsnorm)
  order(RmsNorm)
}
