# SPDX-License-Identifier: Apache-2.0
# Refused: %a/rhs: shape is [8], expected [*,1]

graph main(%x: f32[2,3,8]) -> %z {
  %s = Mul(%x, %x)
  %m = Mean(%s, [-1]) {keep_dims: true}
  %a = Add(%m, [1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6])
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(fuse_rmsnorm)
  unchanged()
  refused("shape is [8], expected [*,1]")
}
