# SPDX-License-Identifier: Apache-2.0
# Refused: %w: has no columns, so no Reshape can give matrices

graph main(%x: f32[0,3], %w: f32[2,0]) -> %y {
  %y = FullyConnected(%x, %w) : f32[0,2]
}

rules {
  passes(replace_non_const_fc_with_batch_matmul)
  unchanged()
  refused("has no columns, so no Reshape can give matrices")
}
