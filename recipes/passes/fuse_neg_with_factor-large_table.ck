# SPDX-License-Identifier: Apache-2.0
# Refused: %sin: is not constant, and its product with the signs has more elements than the NEGs read

graph main(%x: f32[1,1,5,6], %sin: f32[5,6]) -> %y {
  %cos = const f32[5,6] gaussian(0, 1)
  %lo, %hi = Split(3, %x) {num_splits: 2}
  %n = Neg(%hi)
  %c = Concatenation(%n, %lo) {axis: 3}
  %p = Mul(%x, %cos)
  %q = Mul(%c, %sin)
  %y = Add(%p, %q)
}

rules {
  passes(fuse_neg_with_factor)
  unchanged()
  refused("%sin: is not constant, and its product with the signs has more elements than the NEGs read")
}
