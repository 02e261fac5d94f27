# SPDX-License-Identifier: Apache-2.0
# Done: squared_difference(x, y)  ==  (x - y) * (x - y).

graph main(%x: f32[2,3], %y: f32[2,3]) -> %z {
  %z = SquaredDifference(%x, %y)
}

rules {
  passes(replace_squared_difference_with_mul)
  order(Sub, Mul)
}
