# SPDX-License-Identifier: Apache-2.0
# Near miss: NEG of plain integers is as it should be.

graph main(%x: i32[2,3]) -> %z {
  %z = Neg(%x)
}

rules {
  passes(replace_neg_with_mul)
  order(Neg)
}
