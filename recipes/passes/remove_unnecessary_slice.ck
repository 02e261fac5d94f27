# SPDX-License-Identifier: Apache-2.0
# Done: slice(x, 0, all)  ==  x.

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = Slice(%a, [0, 0], [2, 3])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_slice)
  order(Neg, Neg)
}
