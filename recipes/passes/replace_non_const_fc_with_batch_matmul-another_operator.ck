# SPDX-License-Identifier: Apache-2.0
# Left alone: the model has no operator that this pass matches.

graph main(%x: f32[2,3], %w: f32[4,3], %b: f32[4]) -> %y {
  %y/weights = const f32[1,3] [1.0, 2.0, 3.0]
  %y = FullyConnected(%x, %y/weights) : f32[2,1]
}

rules {
  passes(replace_non_const_fc_with_batch_matmul)
  unchanged()
}
