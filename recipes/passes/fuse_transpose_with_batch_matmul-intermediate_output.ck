# SPDX-License-Identifier: Apache-2.0
# Refused: %t: is an output of the graph, the picture would lose it

graph main(%x: f32[3,3,3], %y: f32[3,3,3]) -> %z, %t {
  %t = Transpose(%x, [0, 2, 1])
  %z = BatchMatMul(%t, %y)
}

rules {
  passes(fuse_transpose_with_batch_matmul)
  unchanged()
  refused("%t: is an output")
}
