# SPDX-License-Identifier: Apache-2.0
# Refused: %u: expected the matrices of [2,4,15], got shape [8,3,5]

graph main(%x: f32[2,4,15], %y: f32[2,4,5,7]) -> %z {
  %u = Reshape(%x, [8, 3, 5])
  %v = Reshape(%y, [8, 5, 7])
  %z = BatchMatMul(%u, %v)
}

rules {
  passes(remove_reshape_around_batch_matmul)
  unchanged()
  refused("expected the matrices of [2,4,15], got shape [8,3,5]")
}
