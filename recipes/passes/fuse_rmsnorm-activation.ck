# SPDX-License-Identifier: Apache-2.0
# Refused: %z: act is RELU, expected NONE

graph main(%x: f32[2,3,8]) -> %z {
  %s = Mul(%x, %x)
  %m = Mean(%s, [-1]) {keep_dims: true}
  %a = Add(%m, 1e-6)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r) {act: RELU}
}

rules {
  passes(fuse_rmsnorm)
  unchanged()
  refused("%z: act is RELU")
}
