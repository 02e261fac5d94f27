# SPDX-License-Identifier: Apache-2.0
# Done: square(x)  ==  x * x.

graph main(%x: f32[2,3]) -> %z {
  %z = Square(%x)
}

rules {
  passes(replace_square_with_mul)
  order(Mul)
}
