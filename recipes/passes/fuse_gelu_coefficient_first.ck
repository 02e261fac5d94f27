# SPDX-License-Identifier: Apache-2.0
# Done: x / 2 * (1 + tanh(x * sqrt(2/pi) * (1 + 0.044715 * x * x))), where 0.044715 * x is the first product.

graph main(%x: f32[2,3]) -> %y {
  %u = Mul(%x, 0.044715)
  %k = Mul(%u, %x)
  %d = Add(%k, 1.0)
  %p = Mul(%x, 0.7978846)
  %s = Mul(%p, %d)
  %t = Tanh(%s)
  %a = Add(%t, 1.0)
  %h = Mul(%x, 0.5)
  %y = Mul(%h, %a)
}

rules {
  passes(fuse_gelu)
  order(Gelu)
}
