# SPDX-License-Identifier: Apache-2.0
# Refused: %y: has batch dimensions [4,2], %x has [2,4]

graph main(%x: f32[2,4,3,5], %y: f32[4,2,5,7]) -> %z {
  %u = Reshape(%x, [8, 3, 5])
  %v = Reshape(%y, [8, 5, 7])
  %z = BatchMatMul(%u, %v)
}

rules {
  passes(remove_reshape_around_batch_matmul)
  unchanged()
  refused("%y: has batch dimensions [4,2], %x has [2,4]")
}
