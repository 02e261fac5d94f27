# SPDX-License-Identifier: Apache-2.0
# Done: split(x, 1 part)  ==  x.

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Split(1, %x) {num_splits: 1}
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_split)
  order(Neg, Abs)
}
