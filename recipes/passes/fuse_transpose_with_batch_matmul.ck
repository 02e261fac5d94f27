# SPDX-License-Identifier: Apache-2.0
# Done: a Transpose that exchanges rows and columns of an operand becomes the flag adj_x or adj_y.

graph main(%x: f32[4,3], %y: f32[2,4,5]) -> %z {
  %t = Transpose(%x, [-1, 0])
  %z = BatchMatMul(%t, %y)
}

rules {
  passes(fuse_transpose_with_batch_matmul)
  order(BatchMatMul)
}
