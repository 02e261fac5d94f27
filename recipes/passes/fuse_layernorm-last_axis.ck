# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected a mean over the last axis, got axes [1]

graph main(%x: f32[2,3,8]) -> %z {
  %g = const f32[1,3,8] uniform(0.5, 2)
  %m = Mean(%x, [1]) {keep_dims: true}
  %q = SquaredDifference(%x, %m)
  %v = Mean(%q, [1]) {keep_dims: true}
  %a = Add(%v, 0.001)
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
  refused("expected a mean over the last axis, got axes [1]")
}
