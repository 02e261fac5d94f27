# SPDX-License-Identifier: Apache-2.0
# Done: a TILE that copies each matrix, in a model of batch 2; the left operand is transposed.

graph main(%q: f32[12,3,5], %k: f32[4,1,3,7]) -> %z {
  %t = Tile(%k, [1, 3, 1, 1])
  %y = Reshape(%t, [12, 3, 7])
  %z = BatchMatMul(%q, %y) {adj_x: true}
}

rules {
  passes(fuse_repeat_with_batch_matmul)
  order(Reshape, Reshape, BatchMatMul, Reshape)
}
