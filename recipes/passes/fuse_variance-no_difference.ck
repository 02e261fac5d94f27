# SPDX-License-Identifier: Apache-2.0
# Refused: the new form would compute a difference of the size of %x.

graph main(%x: f32[2,3,8]) -> %z {
  %m = Mean(%x, [2]) {keep_dims: true}
  %q = Square(%x)
  %w = Mean(%q, [2]) {keep_dims: true}
  %s = Square(%m)
  %u = Sub(%w, %s)
  %v = Maximum(%u, 0.0)
  %a = Add(%v, 0.001)
  %r = Rsqrt(%a)
  %z = Mul(%x, %r)
}

rules {
  passes(fuse_variance)
  unchanged()
  refused("%m: is not subtracted from %x, so the new form would cost more")
}
