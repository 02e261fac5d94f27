# SPDX-License-Identifier: Apache-2.0
# Done: operators without side effect and without used result are removed, and the values that only they used.

graph main(%x: f32[2,2]) -> %y {
  %a = Mul(%x, [1.0, 2.0])
  %b = Relu(%a)
  %c,
  %d = Split(0, %b) {num_splits: 2}
  %y = Neg(%x)
}

rules {
  passes(remove_dead)
  order(Neg)
}
