# SPDX-License-Identifier: Apache-2.0
# Done: neg(x)  ==  x * -1.

graph main(%x: f32[2,3]) -> %z {
  %z = Neg(%x)
}

rules {
  passes(replace_neg_with_mul)
  order(Mul)
}
