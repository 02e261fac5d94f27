# SPDX-License-Identifier: Apache-2.0
# Done: reshape(x, the shape of x)  ==  x.

graph main(%x: f32[]) -> %y {
  %a = Neg(%x)
  %b = Reshape(%a, [])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_reshape)
  order(Neg, Neg)
}
