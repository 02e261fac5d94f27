# SPDX-License-Identifier: Apache-2.0
# Refused: %r/rhs: expected an epsilon from 0 to 1e-05, got 0.001

graph main(%x: f32[2,4,5,3]) -> %z {
  %m = Mean(%x, [1,2]) {keep_dims: true}
  %q = SquaredDifference(%x, %m)
  %v = Mean(%q, [1,2]) {keep_dims: true}
  %d = Sub(%x, %m)
  %o = Sqrt(%v)
  %r = Add(%o, 1e-3)
  %n = Div(%d, %r)
  %t = Mul(%n, [2.0, 0.5, -1.0])
  %z = Add(%t, [0.1, 0.2, 0.3]) {act: RELU}
}

rules {
  passes(fuse_instnorm)
  unchanged()
  refused("expected an epsilon from 0 to 1e-05, got 0.001")
}
