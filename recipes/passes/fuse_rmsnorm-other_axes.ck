# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected a mean over the last axis alone, got axes [1]

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
  refused("expected a mean over the last axis alone, got axes [1]")
}
