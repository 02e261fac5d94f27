# SPDX-License-Identifier: Apache-2.0
# Refused: %f/rhs: expected one number, or one per channel of %x, got shape [1,4,1,1]

graph main(%x: f32[2,4,5,3]) -> %z {
  %m = Mean(%x, [1,2]) {keep_dims: true}
  %q = SquaredDifference(%x, %m)
  %v = Mean(%q, [1,2]) {keep_dims: true}
  %a = Add(%v, 1e-3)
  %r = Rsqrt(%a)
  %f = Mul(%r, [[[[1.0]],[[2.0]],[[1.0]],[[1.0]]]])
  %p = Mul(%x, %f)
  %o = Mul(%m, %f)
  %h = Sub([0.1, 0.2, 0.3], %o)
  %z = Add(%p, %h) {act: RELU6}
}

rules {
  passes(fuse_instnorm)
  unchanged()
  refused("expected one number, or one per channel of %x, got shape [1,4,1,1]")
}
