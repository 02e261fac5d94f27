# SPDX-License-Identifier: Apache-2.0
# Refused: %e: is not constant, expected const f32[*,1]

graph main(%x: f32[2,3,8], %e: f32[]) -> %z {
  %s = Mul(%x, %x)
  %m = Mean(%s, [-1]) {keep_dims: true}
  %a = Add(%m, %e)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(fuse_rmsnorm)
  unchanged()
  refused("%e: is not constant")
}
