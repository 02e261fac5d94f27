# SPDX-License-Identifier: Apache-2.0
# Refused: another operator reads the copies.

graph main(%q: f32[4,5,3], %k: f32[2,1,3,7]) -> %z, %e {
  %t = Tile(%k, [1, 2, 1, 1])
  %y = Reshape(%t, [4, 3, 7])
  %z = BatchMatMul(%q, %y)
  %e = Exp(%y)
}

rules {
  passes(fuse_repeat_with_batch_matmul)
  unchanged()
  refused("%y: is also read by Exp %e")
}
