# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected [N,H,W,C] or [N,C,W] with a known C, got shape [2,4,5,3,3]

graph main(%x: f32[2,4,5,3,3]) -> %z {
  %m = Mean(%x, [1,2]) {keep_dims: true}
  %q = SquaredDifference(%x, %m)
  %v = Mean(%q, [1,2]) {keep_dims: true}
  %d = Sub(%x, %m)
  %a = Add(%v, 1e-3)
  %r = Rsqrt(%a)
  %n = Mul(%d, %r)
  %t = Mul(%n, [2.0, 0.5, -1.0])
  %z = Add(%t, [0.1, 0.2, 0.3]) {act: RELU}
}

rules {
  passes(fuse_instnorm)
  unchanged()
  refused("expected [N,H,W,C] or [N,C,W] with a known C, got shape [2,4,5,3,3]")
}
