# SPDX-License-Identifier: Apache-2.0
# Refused: %w: has an unknown number of columns, so no Reshape can give matrices

graph main(%x: f32[?,?], %w: f32[2,?]) -> %y {
  %y = FullyConnected(%x, %w) : f32[?,2]
}

rules {
  passes(replace_non_const_fc_with_batch_matmul)
  unchanged()
  refused("has an unknown number of columns, so no Reshape can give matrices")
}
