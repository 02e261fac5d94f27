# SPDX-License-Identifier: Apache-2.0
# Done: the factor of keys from a cache goes to the layer of the queries, past a rotary embedding.

graph main(%x: f32[1,2,1,4], %cache: f32[1,2,5,4], %sin: f32[1,1,1,4], %cos: f32[1,1,1,4]) -> %y {
  %w = const f32[4,4] gaussian(0, 0.3)
  %f = FullyConnected(%x, %w) {keep_num_dims: true}
  %q = RoPE(%f, %sin, %cos)
  %k = Mul(%cache, 0.5)
  %t = Transpose(%k, [0, 1, 3, 2])
  %y = BatchMatMul(%q, %t)
}

rules {
  passes(forward_number)
  order(FullyConnected, RoPE, Transpose, BatchMatMul)
}
