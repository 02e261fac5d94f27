# SPDX-License-Identifier: Apache-2.0
# Done: a product with -1 is a NEG.

graph main(%x: f32[1,4,5,6], %sin: f32[5,6]) -> %y {
  %cos = const f32[5,6] gaussian(0, 1)
  %lo, %hi = Split(3, %x) {num_splits: 2}
  %n = Mul(%hi, -1.0)
  %c = Concatenation(%n, %lo) {axis: 3}
  %p = Mul(%x, %cos)
  %q = Mul(%c, %sin)
  %y = Add(%p, %q)
}

rules {
  passes(fuse_neg_with_factor)
  order(Split, Concatenation, Mul, Mul, Mul, Add)
}
