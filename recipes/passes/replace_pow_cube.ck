# SPDX-License-Identifier: Apache-2.0
# Done: pow(x, 3)  ==  x * x * x.

graph main(%x: f32[2,3]) -> %z {
  %p = Abs(%x)
  %z = Pow(%p, 3.0)
}

rules {
  passes(replace_pow)
  order(Abs, Mul, Mul)
}
