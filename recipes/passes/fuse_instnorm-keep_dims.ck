# SPDX-License-Identifier: Apache-2.0
# Refused: %m: keep_dims is False, expected True

graph main(%x: f32[3,3,3,3]) -> %z {
  %m = Mean(%x, [1,2])
  %q = SquaredDifference(%x, %m)
  %v = Mean(%q, [1,2])
  %d = Sub(%x, %m)
  %a = Add(%v, 1e-3)
  %r = Rsqrt(%a)
  %n = Mul(%d, %r)
  %t = Mul(%n, 0.1)
  %z = Add(%t, [0.1, 0.2, 0.3]) {act: RELU}
}

rules {
  passes(fuse_instnorm)
  unchanged()
  refused("keep_dims is False")
}
