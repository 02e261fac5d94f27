# SPDX-License-Identifier: Apache-2.0
# Done: Without the operators that have no effect and no used result, and the values that only they had.

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
