# SPDX-License-Identifier: Apache-2.0
# Done: fc(x, w, b) == x @ transpose(w) + b, for a computed w.

graph main(%x: f32[2,3], %w: f32[4,3], %b: f32[4]) -> %y {
  %y = FullyConnected(%x, %w) : f32[2,4]
}

rules {
  passes(replace_non_const_fc_with_batch_matmul)
  order(BatchMatMul)
}
