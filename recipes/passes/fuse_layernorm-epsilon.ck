# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected an epsilon above 0 for RMS_NORM, got 0.0

graph main(%x: f32[2,3,8]) -> %z {
  %g = const f32[1,1,8] uniform(0.5, 2)
  %m = Mean(%x, [-1]) {keep_dims: true}
  %q = SquaredDifference(%x, %m)
  %v = Mean(%q, [-1]) {keep_dims: true}
  %a = Add(%v, 0.0)
  %r = Rsqrt(%a)
  %f = Mul(%r, %g)
  %p = Mul(%x, %f)
  %i = Neg(%m)
  %o = Mul(%i, %f)
  %z = Add(%p, %o)
}

rules {
  passes(fuse_layernorm)
  unchanged()
  refused("expected an epsilon above 0 for RMS_NORM, got 0.0")
}
