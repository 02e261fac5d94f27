# SPDX-License-Identifier: Apache-2.0
# Done: pow(x, 2)  ==  x * x.

graph main(%x: f32[2,3]) -> %z {
  %p = Abs(%x)
  %z = Pow(%p, 2.0)
}

rules {
  passes(replace_pow)
  order(Abs, Mul)
}
