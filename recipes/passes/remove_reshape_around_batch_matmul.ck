# SPDX-License-Identifier: Apache-2.0
# Done: operands of BATCH_MATMUL with reshaped batch dimensions: one Reshape after it is enough.

graph main(%x: f32[2,4,3,5], %y: f32[2,4,5,7]) -> %z {
  %u = Reshape(%x, [8, 3, 5])
  %v = Reshape(%y, [8, 5, 7])
  %z = BatchMatMul(%u, %v)
}

rules {
  passes(remove_reshape_around_batch_matmul)
  order(BatchMatMul, Reshape)
}
