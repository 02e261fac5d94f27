# SPDX-License-Identifier: Apache-2.0
# Refused: %u: is an output of the graph, the picture would lose it

graph main(%x: f32[2,4,3,5], %y: f32[2,4,5,7]) -> %z, %u {
  %u = Reshape(%x, [8, 3, 5])
  %v = Reshape(%y, [8, 5, 7])
  %z = BatchMatMul(%u, %v)
}

rules {
  passes(remove_reshape_around_batch_matmul)
  unchanged()
  refused("%u: is an output of the graph")
}
