# SPDX-License-Identifier: Apache-2.0
# Done: the Transpose copies rows, because BATCH_MATMUL turns rows into columns.

graph main(%x: f32[2,3,5,4], %y: f32[2,6,3,4]) -> %z {
  %t = Transpose(%y, [0, 2, 3, 1])
  %z = BatchMatMul(%x, %t)
}

rules {
  passes(fuse_transpose_with_batch_matmul)
  order(Transpose, BatchMatMul)
  attributes(%z, adj_y: true)
}
