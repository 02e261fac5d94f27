# SPDX-License-Identifier: Apache-2.0
# Refused: %v: expected the matrices of [2,4,7,5], got shape [8,5,7]

graph main(%x: f32[2,4,3,5], %y: f32[2,4,7,5]) -> %z {
  %u = Reshape(%x, [8, 3, 5])
  %v = Reshape(%y, [8, 5, 7])
  %z = BatchMatMul(%u, %v)
}

rules {
  passes(remove_reshape_around_batch_matmul)
  unchanged()
  refused("expected the matrices of [2,4,7,5], got shape [8,5,7]")
}
