# SPDX-License-Identifier: Apache-2.0
# Done: one head serves all heads of queries; there is no RESHAPE.

graph main(%q: f32[2,4,5,3], %k: f32[2,1,3,7]) -> %z {
  %y = BroadcastTo(%k, [2, 4, 3, 7])
  %z = BatchMatMul(%q, %y)
}

rules {
  passes(fuse_repeat_with_batch_matmul)
  order(Reshape, Reshape, BatchMatMul, Reshape)
}
