# SPDX-License-Identifier: Apache-2.0
# Done: two Transposes in a row cancel or become one; an identity Transpose is removed.

graph main(%x: f32[?,3,?]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [1, 2, 0])
  %c = Transpose(%b, [-1, 0, 1])
  %y = Neg(%c)
}

rules {
  passes(remove_redundant_transpose)
  order(Neg, Neg)
}
