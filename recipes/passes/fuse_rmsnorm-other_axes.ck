# SPDX-License-Identifier: Apache-2.0
# Refused: %x: the mean is over axes [1], not the last alone

graph main(%x: f32[2,3,8]) -> %z {
  %s = Mul(%x, %x)
  %m = Mean(%s, [1]) {keep_dims: true}
  %a = Add(%m, 1e-6)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(fuse_rmsnorm)
  unchanged()
  refused("the mean is over axes [1], not the last alone")
}
