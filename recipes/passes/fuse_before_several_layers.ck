# SPDX-License-Identifier: Apache-2.0
# Done: factors and offsets that several layers read, as after a layer normalization, are folded into each layer.

graph main(%x: f32[2,5,4]) -> %q, %k, %v {
  %gamma = const f32[4] uniform(0.5, 2)
  %beta = const f32[1,1,4] gaussian(0, 1)
  %wq = const f32[4,4] gaussian(0, 1)
  %wk = const f32[4,4] gaussian(0, 1)
  %wv = const f32[3,4] gaussian(0, 1)
  %m = Mul(%gamma, %x)
  %a = Add(%m, %beta)
  %q = FullyConnected(%a, %wq, [1.0, 2, 3, 4]) {keep_num_dims: true}
  %k = FullyConnected(%a, %wk) {keep_num_dims: true, act: RELU}
  %v = FullyConnected(%a, %wv) {keep_num_dims: true}
}

rules {
  passes(fuse_add_to_fullyconnected_bias, fuse_mul_to_fullyconnected_weights, fold_constants)
  order(FullyConnected, FullyConnected, FullyConnected)
}
