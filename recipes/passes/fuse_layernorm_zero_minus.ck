# SPDX-License-Identifier: Apache-2.0
# Done: x * r + (0 - mean(x) * r) becomes (x - mean(x)) * r.

graph main(%x: f32[2,3,8]) -> %z {
  %m = Mean(%x, [-1]) {keep_dims: true}
  %q = SquaredDifference(%x, %m)
  %v = Mean(%q, [-1]) {keep_dims: true}
  %a = Add(%v, 0.001)
  %r = Rsqrt(%a)
  %p = Mul(%x, %r)
  %o = Mul(%m, %r)
  %h = Sub(0.0, %o)
  %z = Add(%p, %h)
}

rules {
  passes(fuse_layernorm)
  order(Mean, Sub, Square, Mean, Add, Rsqrt, Mul)
}
