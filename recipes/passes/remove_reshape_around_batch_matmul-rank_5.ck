# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected rank 2 to 4, got 5

graph main(%x: f32[2,2,2,3,5], %y: f32[2,2,2,5,7]) -> %z {
  %u = Reshape(%x, [8, 3, 5])
  %v = Reshape(%y, [8, 5, 7])
  %z = BatchMatMul(%u, %v)
}

rules {
  passes(remove_reshape_around_batch_matmul)
  unchanged()
  refused("expected rank 2 to 4, got 5")
}
