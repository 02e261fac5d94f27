# SPDX-License-Identifier: Apache-2.0
# Refused: %t: is also read by Neg %w

graph main(%x: f32[3,3,3], %y: f32[3,3,3]) -> %z, %w {
  %t = Transpose(%x, [0, 2, 1])
  %z = BatchMatMul(%t, %y)
  %w = Neg(%t)
}

rules {
  passes(fuse_transpose_with_batch_matmul)
  unchanged()
  refused("%t: is also read by Neg")
}
