# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected an epsilon above 0 for RMS_NORM, got 0.0

graph main(%x: f32[2,3,8]) -> %z {
  %s = Mul(%x, %x)
  %m = Mean(%s, [-1]) {keep_dims: true}
  %a = Add(%m, 0.0)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(fuse_rmsnorm)
  unchanged()
  refused("expected an epsilon above 0 for RMS_NORM, got 0.0")
}
