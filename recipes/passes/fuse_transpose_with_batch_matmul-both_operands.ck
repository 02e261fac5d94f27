# SPDX-License-Identifier: Apache-2.0
# Refused: %t: expected a perm that swaps the last two axes alone, got [0, 2, 3, 1]
# The rule for rows refuses, too: the left operand would keep the Transpose.

graph main(%x: f32[3,3,2,3]) -> %z {
  %t = Transpose(%x, [0, 2, 3, 1])
  %z = BatchMatMul(%t, %t) {adj_x: true}
}

rules {
  passes(fuse_transpose_with_batch_matmul)
  unchanged()
  refused("%t: expected a perm that swaps the last two axes alone")
}
