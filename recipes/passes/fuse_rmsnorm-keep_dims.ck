# SPDX-License-Identifier: Apache-2.0
# Refused: %m: keep_dims is False, expected True

graph main(%x: f32[8,8]) -> %z {
  %s = Mul(%x, %x)
  %m = Mean(%s, [1]) {keep_dims: false}
  %a = Add(%m, 1e-6)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(fuse_rmsnorm)
  unchanged()
  refused("%m: keep_dims is False, expected True")
}
