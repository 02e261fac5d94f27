# SPDX-License-Identifier: Apache-2.0
# Done: pow(x, 1/2)  ==  sqrt(x).

graph main(%x: f32[2,3]) -> %z {
  %p = Abs(%x)
  %z = Pow(%p, 0.5)
}

rules {
  passes(replace_pow)
  order(Abs, Sqrt)
}
