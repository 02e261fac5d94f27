# SPDX-License-Identifier: Apache-2.0
# Refused: the copies of a matrix do not follow each other.

graph main(%q: f32[4,5,3], %k: f32[1,2,3,7]) -> %z {
  %t = Tile(%k, [2, 1, 1, 1])
  %y = Reshape(%t, [4, 3, 7])
  %z = BatchMatMul(%q, %y)
}

rules {
  passes(fuse_repeat_with_batch_matmul)
  unchanged()
  refused("%t: expected copies of matrices [3,7] that follow each other")
}
