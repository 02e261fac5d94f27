# SPDX-License-Identifier: Apache-2.0
# Done: the weights of 32 rows are shuffled in blocks of 16.

graph main(%x: f32[2,3]) -> %y {
  %w = const f32[32,3] uniform(-1, 1)
  %y = FullyConnected(%x, %w, none) {act: RELU}
}

rules {
  passes(shuffle_weight_to_16x1float32)
  order(FullyConnected)
  attributes(%y, weights_format: SHUFFLED16x1FLOAT32, act: RELU)
}
