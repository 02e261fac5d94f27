# SPDX-License-Identifier: Apache-2.0
# Done: a product with a constant matrix becomes a layer, which a bias and an activation can join.

graph main(%x: f32[2,3,4]) -> %z {
  %w = const f32[1,4,5] gaussian(0, 1)
  %z = BatchMatMul(%x, %w)
}

rules {
  passes(replace_const_batch_matmul_with_fc)
  order(FullyConnected)
}
