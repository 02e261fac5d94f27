# SPDX-License-Identifier: Apache-2.0
# Done: queries, keys and values come from one layer.

graph main(%x: f32[2,5,8]) -> %z {
  %wq = const f32[8,8] gaussian(0, 0.5)
  %wk = const f32[8,8] gaussian(0, 0.5)
  %wv = const f32[8,8] gaussian(0, 0.5)
  %bk = const f32[8] gaussian(0, 1)
  %q = FullyConnected(%x, %wq) {keep_num_dims: true}
  %k = FullyConnected(%x, %wk, %bk) {keep_num_dims: true}
  %v = FullyConnected(%x, %wv) {keep_num_dims: true}
  %hq = Reshape(%q, [2, 5, 2, 4])
  %hk = Reshape(%k, [2, 5, 2, 4])
  %hv = Reshape(%v, [2, 5, 2, 4])
  %tq = Transpose(%hq, [0, 2, 1, 3])
  %tk = Transpose(%hk, [0, 2, 1, 3])
  %tv = Transpose(%hv, [0, 2, 1, 3])
  %a = BatchMatMul(%tq, %tk) {adj_y: true}
  %s = Softmax(%a) {beta: 1.0}
  %z = BatchMatMul(%s, %tv)
}

rules {
  passes(join_fully_connected)
  order(FullyConnected, Split, Reshape, Reshape, Reshape, Transpose, Transpose, Transpose, BatchMatMul, Softmax,
    BatchMatMul)
}
