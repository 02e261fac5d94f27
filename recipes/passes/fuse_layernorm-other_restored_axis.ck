# SPDX-License-Identifier: Apache-2.0
# Refused: %i has the mean of each row along another axis

graph main(%x: f32[1,4,4]) -> %z {
  %m = Mean(%x, [0, 2])
  %i = Reshape(%m, [1, 1, 4])
  %q = SquaredDifference(%x, %i)
  %v = Mean(%q, [0, 2])
  %a = Add(%v, 0.001)
  %r = Rsqrt(%a)
  %o = Mul(%r, %m)
  %n = Sub(0.0, %o)
  %j = Reshape(%r, [1, 4, 1])
  %p = Mul(%x, %j)
  %h = Reshape(%n, [1, 4, 1])
  %z = Add(%p, %h) {act: RELU}
}

rules {
  passes(fuse_layernorm)
  unchanged()
  refused("%i: expected [1,4,1], got [1,1,4]")
}
