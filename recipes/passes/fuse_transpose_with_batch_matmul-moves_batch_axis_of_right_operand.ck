# SPDX-License-Identifier: Apache-2.0
# Refused: the Transpose of the right operand moves the axis of the batch, and keeps rows as rows.

graph main(%x: f32[3,3,3], %y: f32[3,3,3]) -> %z {
  %t = Transpose(%y, [1, 0, 2])
  %z = BatchMatMul(%x, %t)
}

rules {
  passes(fuse_transpose_with_batch_matmul)
  unchanged()
  refused("expected a perm that swaps the last two axes alone")
}
