# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected two means over the same axes, got [2] and [1]

graph main(%x: f32[2,8,8]) -> %z {
  %m = Mean(%x, [2]) {keep_dims: true}
  %q = Square(%x)
  %w = Mean(%q, [1]) {keep_dims: true}
  %s = Square(%m)
  %u = Sub(%w, %s)
  %v = Maximum(%u, 0.0)
  %a = Add(%v, 0.001)
  %r = Rsqrt(%a)
  %d = Sub(%x, %m)
  %z = Mul(%d, %r)
}

rules {
  passes(fuse_variance)
  unchanged()
  refused("%x: expected two means over the same axes, got [2] and [1]")
}
