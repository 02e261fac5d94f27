# SPDX-License-Identifier: Apache-2.0
# Done: one layer computes queries and keys; only the rows of the queries are multiplied.

graph main(%x: f32[1,5,4]) -> %y {
  %w = const f32[12,4] gaussian(0, 0.3)
  %qk = FullyConnected(%x, %w) {keep_num_dims: true}
  %h = Reshape(%qk, [1,5,2,2,3])
  %t = Transpose(%h, [2,0,3,1,4])
  %q, %k = Unpack(%t) {num: 2, axis: 0}
  %m = BatchMatMul(%q, %k) {adj_y: true}
  %y = Mul(%m, 0.5773)
}

rules {
  passes(forward_number)
  order(FullyConnected, Reshape, Transpose, Unpack, BatchMatMul)
}
