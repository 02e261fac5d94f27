# SPDX-License-Identifier: Apache-2.0
# Refused: %t: is also the left operand, which would keep its Transpose

graph main(%x: f32[3,3,2,3]) -> %z {
  %t = Transpose(%x, [0, 2, 3, 1])
  %z = BatchMatMul(%t, %t) {adj_x: true}
}

rules {
  passes(fuse_transpose_with_batch_matmul)
  unchanged()
  refused("%t: is also the left operand")
}
