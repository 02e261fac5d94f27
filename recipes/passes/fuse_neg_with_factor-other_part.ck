# SPDX-License-Identifier: Apache-2.0
# Unchanged: the other part of the negated value is read, too.

graph main(%x: f32[2,6], %s: f32[3]) -> %y, %z {
  %n = Neg(%x)
  %a, %b = Split(1, %n) {num_splits: 2}
  %y = Mul(%a, %s)
  %z = Exp(%b)
}

rules {
  passes(fuse_neg_with_factor)
  unchanged()
}
