# SPDX-License-Identifier: Apache-2.0
# Done: x / 1  ==  x.

graph main(%in: i32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Div(%x, [1, 1, 1])
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_div)
  order(Neg, Abs)
}
