# SPDX-License-Identifier: Apache-2.0
# Refused: %v: is also read by Neg %w

graph main(%x: f32[2,4,3,5], %y: f32[2,4,5,7]) -> %z, %w {
  %u = Reshape(%x, [8, 3, 5])
  %v = Reshape(%y, [8, 5, 7])
  %z = BatchMatMul(%u, %v)
  %w = Neg(%v)
}

rules {
  passes(remove_reshape_around_batch_matmul)
  unchanged()
  refused("%v: is also read by Neg %w")
}
