# SPDX-License-Identifier: Apache-2.0
# Done: two heads of keys serve four heads of queries without copies.

graph main(%q: f32[1,4,5,3], %k: f32[1,2,7,3]) -> %z {
  %r = Reshape(%k, [1, 2, 1, 7, 3])
  %t = BroadcastTo(%r, [1, 2, 2, 7, 3])
  %y = Reshape(%t, [1, 4, 7, 3])
  %z = BatchMatMul(%q, %y) {adj_y: true}
}

rules {
  passes(fuse_repeat_with_batch_matmul)
  order(Reshape, Reshape, Reshape, BatchMatMul, Reshape)
}
