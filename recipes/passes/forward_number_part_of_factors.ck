# SPDX-License-Identifier: Apache-2.0
# Done: a constant has a factor for each channel; only the factors of the queries are multiplied.

graph main(%x: f32[1,5,12]) -> %y {
  %w = const f32[12] gaussian(0, 0.3)
  %qk = Mul(%x, %w)
  %h = Reshape(%qk, [1,5,2,2,3])
  %t = Transpose(%h, [2,0,3,1,4])
  %q, %k = Unpack(%t) {num: 2, axis: 0}
  %m = BatchMatMul(%q, %k) {adj_y: true}
  %y = Mul(%m, 0.5773)
}

rules {
  passes(forward_number)
  order(Mul, Reshape, Transpose, Unpack, BatchMatMul)
}
