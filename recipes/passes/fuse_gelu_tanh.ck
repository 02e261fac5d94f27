# SPDX-License-Identifier: Apache-2.0
# Done: x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) / 2  ==  gelu(x), approximate.

graph main(%x: f32[2,3]) -> %y {
  %p = Mul(%x, %x)
  %c = Mul(%p, %x)
  %k = Mul(%c, 0.044715)
  %d = Add(%x, %k)
  %s = Mul(%d, 0.7978846)
  %t = Tanh(%s)
  %a = Add(%t, 1.0)
  %h = Mul(%x, 0.5)
  %y = Mul(%h, %a)
}

rules {
  passes(fuse_gelu)
  order(Gelu)
}
