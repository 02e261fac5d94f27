# SPDX-License-Identifier: Apache-2.0
# Done: reshape(f(g(reshape(x, B))), C)  ==  reshape(f(g(x)), C), and no Reshape where x has shape C.

graph main(%x: f32[?,3,4]) -> %y {
  %a = Neg(%x)
  %b = Reshape(%a, [-1, 4])
  %c = Exp(%b)
  %d = Reshape(%c, [-1, 3, 4])
  %y = Neg(%d)
}

rules {
  passes(remove_reshape_around_unaryop)
  order(Neg, Exp, Neg)
}
