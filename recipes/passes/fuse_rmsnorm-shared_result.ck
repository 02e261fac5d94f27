# SPDX-License-Identifier: Apache-2.0
# Refused: %r: is also read by Neg %n

graph main(%x: f32[2,3,8]) -> %z, %n {
  %s = Mul(%x, %x)
  %m = Mean(%s, [-1]) {keep_dims: true}
  %a = Add(%m, 1e-6)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
  %n = Neg(%r)
}

rules {
  passes(fuse_rmsnorm)
  unchanged()
  refused("%r: is also read by Neg")
}
