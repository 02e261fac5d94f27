# SPDX-License-Identifier: Apache-2.0
# Done: the variance of a layer normalization of flax.

graph main(%x: f32[2,3,8]) -> %z {
  %m = Mean(%x, [2]) {keep_dims: true}
  %q = Square(%x)
  %w = Mean(%q, [-1]) {keep_dims: true}
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
  order(Mean, Sub, Square, Mean, Add, Rsqrt, Sub, Mul)
}
