# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected weights of format DEFAULT, got SHUFFLED4x16INT8

graph main(%x: f32[2,3], %w: f32[4,3], %b: f32[4]) -> %y {
  %y = FullyConnected(%x, %w) {weights_format: SHUFFLED4x16INT8} : f32[2,4]
}

rules {
  passes(replace_non_const_fc_with_batch_matmul)
  unchanged()
  refused("expected weights of format DEFAULT, got SHUFFLED4x16INT8")
}
