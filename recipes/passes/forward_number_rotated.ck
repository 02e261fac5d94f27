# SPDX-License-Identifier: Apache-2.0
# Done: the number passes a rotary embedding.

graph main(%x: f32[1,2,5,4], %k: f32[1,2,4,5], %cos: f32[5,4], %sin: f32[5,4]) -> %y {
  %w = const f32[4,4] gaussian(0, 0.3)
  %q = FullyConnected(%x, %w) {keep_num_dims: true}
  %lo, %hi = Split(3, %q) {num_splits: 2}
  %n = Neg(%hi)
  %c = Concatenation(%n, %lo) {axis: 3}
  %p = Mul(%q, %cos)
  %r = Mul(%c, %sin)
  %e = Add(%p, %r)
  %m = BatchMatMul(%e, %k)
  %y = Mul(%m, 0.5)
}

rules {
  passes(forward_number)
  order(FullyConnected, Split, Neg, Concatenation, Mul, Mul, Add, BatchMatMul)
}
