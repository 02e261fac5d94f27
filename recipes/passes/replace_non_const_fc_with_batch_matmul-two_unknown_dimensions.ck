# SPDX-License-Identifier: Apache-2.0
# Refused: %y: has more than one unknown dimension, no Reshape can give them back

graph main(%x: f32[?,?,?,?], %w: f32[3,2]) -> %y {
  %y = FullyConnected(%x, %w, none) {keep_num_dims: true} : f32[?,?,?,3]
}

rules {
  passes(replace_non_const_fc_with_batch_matmul)
  unchanged()
  refused("has more than one unknown dimension")
}
