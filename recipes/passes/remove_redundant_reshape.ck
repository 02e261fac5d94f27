# SPDX-License-Identifier: Apache-2.0
# Done: a Reshape of a Reshape becomes one Reshape.

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = ExpandDims(%a, 1)
  %c = Reshape(%b, [6])
  %y = Neg(%c)
}

rules {
  passes(remove_redundant_reshape)
  order(Neg, Reshape, Neg)
}
