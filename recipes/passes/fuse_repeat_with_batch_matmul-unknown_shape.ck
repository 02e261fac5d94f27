# SPDX-License-Identifier: Apache-2.0
# Refused: the number of keys is unknown.

graph main(%q: f32[4,5,3], %k: f32[2,1,?,3]) -> %z {
  %t = Tile(%k, [1, 2, 1, 1])
  %y = Reshape(%t, [4, -1, 3])
  %z = BatchMatMul(%q, %y) {adj_y: true}
}

rules {
  passes(fuse_repeat_with_batch_matmul)
  unchanged()
  refused("%k: expected a static shape")
}
