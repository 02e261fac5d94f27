# SPDX-License-Identifier: Apache-2.0
# Done: x is multiplied by the factor per row first, and by gamma last.

graph main(%x: f32[2,3,8], %a: f32[2,3,1]) -> %z {
  %g = const f32[8] uniform(0.5, 2)
  %b = Abs(%a)
  %c = Add(%b, 0.1)
  %r = Rsqrt(%c)
  %f = Mul(%r, %g)
  %z = Mul(%x, %f)
}

rules {
  passes(fuse_layernorm)
  order(Abs, Add, Rsqrt, Mul, Mul)
}
