# SPDX-License-Identifier: Apache-2.0
# Done: fc(x, transpose(w)) == x @ w, where one operator replaces two.

graph main(%x: f32[2,3], %w: f32[3,4], %b: f32[4]) -> %y {
  %t/perm = const i32[2] [1, 0]
  %t = Transpose(%w, %t/perm) : f32[4,3]
  %y = FullyConnected(%x, %t) : f32[2,4]
}

rules {
  passes(fuse_transpose_with_fullyconnected)
  order(BatchMatMul)
}
