# SPDX-License-Identifier: Apache-2.0
# Refused: all matrices of the right operand are multiplied by one matrix.

graph main(%q: f32[1,5,3], %k: f32[2,1,3,7]) -> %z {
  %t = Tile(%k, [1, 2, 1, 1])
  %y = Reshape(%t, [4, 3, 7])
  %z = BatchMatMul(%q, %y)
}

rules {
  passes(fuse_repeat_with_batch_matmul)
  unchanged()
  refused("%q: expected the batch dimensions [4], got shape [1,5,3]")
}
