# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected the batch dimensions of %x, [2,4], got [4,2]

graph main(%x: f32[2,4,3,5], %y: f32[4,2,5,7]) -> %z {
  %u = Reshape(%x, [8, 3, 5])
  %v = Reshape(%y, [8, 5, 7])
  %z = BatchMatMul(%u, %v)
}

rules {
  passes(remove_reshape_around_batch_matmul)
  unchanged()
  refused("expected the batch dimensions of %x, [2,4], got [4,2]")
}
