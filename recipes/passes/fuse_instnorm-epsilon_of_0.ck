# SPDX-License-Identifier: Apache-2.0
# Refused: an epsilon of 0.  For a constant image, 1 / sqrt(0) is infinite; MUL limits it, INSTANCE_NORM does not.

graph main(%x: f32[1,2,2,2]) -> %y {
  %g = const f32[2] [1.5, 2.0]
  %b = const f32[2] [0.5, 0.25]
  %m = Mean(%x, [1,2]) {keep_dims: true}
  %q = SquaredDifference(%x, %m)
  %v = Mean(%q, [1,2]) {keep_dims: true}
  %a = Add(%v, 0.0)
  %r = Rsqrt(%a)
  %f = Mul(%r, %g)
  %d = Sub(%x, %m)
  %t = Mul(%d, %f)
  %y = Add(%t, %b)
}

rules {
  passes(fuse_instnorm)
  format(circle)
  unchanged()
  refused("expected an epsilon above 0, got 0")
}
