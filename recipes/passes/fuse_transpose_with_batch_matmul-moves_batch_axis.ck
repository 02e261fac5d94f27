# SPDX-License-Identifier: Apache-2.0
# Refused: %t: perm is [1, 0, 2], the last two axes alone are wanted

graph main(%x: f32[3,3,3], %y: f32[3,3,3]) -> %z {
  %t = Transpose(%x, [1, 0, 2])
  %z = BatchMatMul(%t, %y)
}

rules {
  passes(fuse_transpose_with_batch_matmul)
  unchanged()
  refused("the last two axes alone")
}
