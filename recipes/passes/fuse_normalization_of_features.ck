# SPDX-License-Identifier: Apache-2.0
# Done: the normalization of features, as Keras writes it, is folded into the first layer.

graph main(%x: f32[?,4]) -> %y {
  %mean = const f32[1,4] gaussian(0, 1)
  %std = const f32[1,4] uniform(0.5, 2)
  %w = const f32[3,4] gaussian(0, 1)
  %a = Sub(%x, %mean)
  %b = Div(%a, %std)
  %y = FullyConnected(%b, %w, [1.0, 2, 3]) {act: RELU}
}

rules {
  passes(fuse_mul_to_fullyconnected_weights, fuse_add_to_fullyconnected_bias, fold_constants)
  order(FullyConnected)
}
