# SPDX-License-Identifier: Apache-2.0
# Refused: %x: epsilon is 0.0, RMS_NORM wants one above 0

graph main(%x: f32[2,3,8]) -> %z {
  %s = Mul(%x, %x)
  %m = Mean(%s, [-1]) {keep_dims: true}
  %a = Add(%m, 0.0)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(fuse_rmsnorm)
  unchanged()
  refused("epsilon is 0.0, RMS_NORM wants one above 0")
}
