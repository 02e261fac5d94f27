# SPDX-License-Identifier: Apache-2.0
# Queries, keys and values of 32 channels come from one layer; with 8 channels (attention.ck) they stay apart.
# Gate and up projections stay apart as well: joined, they would only need a SPLIT.

graph main(%x: f32[1,4,32]) -> %z, %m {
  %wq = const f32[32,32] gaussian(0, 0.1)
  %wk = const f32[32,32] gaussian(0, 0.1)
  %wv = const f32[32,32] gaussian(0, 0.1)
  %q = FullyConnected(%x, %wq, none) {keep_num_dims: true}
  %k = FullyConnected(%x, %wk, none) {keep_num_dims: true}
  %v = FullyConnected(%x, %wv, none) {keep_num_dims: true}
  %q4 = Reshape(%q, [1,4,2,16])
  %k4 = Reshape(%k, [1,4,2,16])
  %v4 = Reshape(%v, [1,4,2,16])
  %qh = Transpose(%q4, [0,2,1,3])
  %kh = Transpose(%k4, [0,2,1,3])
  %vh = Transpose(%v4, [0,2,1,3])
  %dots = BatchMatMul(%qh, %kh) {adj_y: true}
  %weights = Softmax(%dots)
  %z = BatchMatMul(%weights, %vh)

  %y = Square(%x)
  %wg = const f32[64,32] gaussian(0, 0.1)
  %wu = const f32[64,32] gaussian(0, 0.1)
  %g = FullyConnected(%y, %wg, none) {keep_num_dims: true}
  %u = FullyConnected(%y, %wu, none) {keep_num_dims: true}
  %s = Logistic(%g)
  %a = Mul(%g, %s)
  %m = Mul(%a, %u)
}

rules {
  passes(O1)
  ops(FullyConnected: 3, Split: 1, Transpose: 1, Reshape: 1)
}
