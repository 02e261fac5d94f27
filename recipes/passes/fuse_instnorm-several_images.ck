# SPDX-License-Identifier: Apache-2.0
# Refused: %m: expected a mean over the axes [1, 2], got [0, 1, 2]

graph main(%x: f32[2,4,5,3]) -> %n {
  %m = Mean(%x, [0,1,2]) {keep_dims: true}
  %d = Sub(%x, %m)
  %q = Mul(%d, %d)
  %v = Mean(%q, [0,1,2]) {keep_dims: true}
  %a = Add(%v, 1e-3)
  %r = Rsqrt(%a)
  %n = Mul(%d, %r)
}

rules {
  passes(fuse_instnorm)
  unchanged()
  refused("expected a mean over the axes [1, 2], got [0, 1, 2]")
}
