# SPDX-License-Identifier: Apache-2.0
# Refused: %v: makes [8,5,7] of [2,4,7,5], equal matrices are wanted

graph main(%x: f32[2,4,3,5], %y: f32[2,4,7,5]) -> %z {
  %u = Reshape(%x, [8, 3, 5])
  %v = Reshape(%y, [8, 5, 7])
  %z = BatchMatMul(%u, %v)
}

rules {
  passes(remove_reshape_around_batch_matmul)
  unchanged()
  refused("makes [8,5,7] of [2,4,7,5]")
}
