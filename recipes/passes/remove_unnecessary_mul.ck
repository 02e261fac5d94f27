# SPDX-License-Identifier: Apache-2.0
# Done: x * 1  ==  1 * x  ==  x.

graph main(%in: i32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Mul(1, %x)
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_mul)
  order(Neg, Abs)
}
