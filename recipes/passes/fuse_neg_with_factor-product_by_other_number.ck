# SPDX-License-Identifier: Apache-2.0
# Refused: the product before the concatenation is no negation.

graph main(%x: f32[1,4,5,6]) -> %y {
  %sin = const f32[5,6] gaussian(0, 1)
  %lo, %hi = Split(3, %x) {num_splits: 2}
  %n = Mul(%hi, -2.0)
  %c = Concatenation(%n, %lo) {axis: 3}
  %y = Mul(%c, %sin)
}

rules {
  passes(fuse_neg_with_factor)
  unchanged()
}
