# SPDX-License-Identifier: Apache-2.0
# Refused: %o: expected the same value in two places

graph main(%x: f32[2,3,8], %o: f32[2,3,8]) -> %z {
  %s = Mul(%x, %o)
  %m = Mean(%s, [-1]) {keep_dims: true}
  %a = Add(%m, 1e-6)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(fuse_rmsnorm)
  unchanged()
  refused("expected the same value in two places")
}
