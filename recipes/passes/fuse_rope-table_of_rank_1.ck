# SPDX-License-Identifier: Apache-2.0
# Refused: %sin: expected rank 4, got 1; ONE's interpreter and runtime read axis 3 of a table

graph main(%x: f32[1,2,3,8], %cos: f32[8], %sin: f32[8]) -> %z {
  %lo,
  %hi = Split(3, %x) {num_splits: 2}
  %n = Neg(%hi)
  %c = Concatenation(%n, %lo) {axis: -1}
  %p = Mul(%x, %cos)
  %q = Mul(%c, %sin)
  %z = Add(%p, %q)
}

rules {
  passes(fuse_rope)
  unchanged()
  refused("%sin: expected rank 4, got 1; ONE's interpreter and runtime read axis 3 of a table")
}
