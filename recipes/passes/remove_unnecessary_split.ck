# SPDX-License-Identifier: Apache-2.0
# Done: A tensor split into one part is that part.

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Split(1, %x) {num_splits: 1}
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_split)
  order(Neg, Abs)
}
