# SPDX-License-Identifier: Apache-2.0
# Done: two Transposes that do not cancel become one.

graph main(%x: f32[3,3,3]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [1, 2, 0])
  %c = Transpose(%b, [0, 2, 1])
  %y = Neg(%c)
}

rules {
  passes(remove_redundant_transpose)
  order(Neg, Transpose, Neg)
}
