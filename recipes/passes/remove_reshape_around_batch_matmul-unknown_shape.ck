# SPDX-License-Identifier: Apache-2.0
# Refused: %x has shape [?,4,3,5], expected a static shape

graph main(%x: f32[?,4,3,5], %y: f32[?,4,5,7]) -> %z {
  %u = Reshape(%x, [-1, 3, 5])
  %v = Reshape(%y, [-1, 5, 7])
  %z = BatchMatMul(%u, %v)
}

rules {
  passes(remove_reshape_around_batch_matmul)
  unchanged()
  refused("%x has shape [?,4,3,5], expected a static shape")
}
