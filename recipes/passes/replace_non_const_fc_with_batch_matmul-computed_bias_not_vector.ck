# SPDX-License-Identifier: Apache-2.0
# Refused: the bias is computed and not a vector, so an ADD would broadcast it.

graph main(%x: f32[4,3], %w: f32[4,3], %b: f32[4,1]) -> %y {
  %y = FullyConnected(%x, %w, %b) : f32[4,4]
}

rules {
  passes(replace_non_const_fc_with_batch_matmul)
  unchanged()
  refused("expected a bias of rank 1 or a plain constant, got f32[4,1]")
}
