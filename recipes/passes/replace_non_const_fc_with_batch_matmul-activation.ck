# SPDX-License-Identifier: Apache-2.0
# Refused: %y: act is SIGN_BIT, for which there is no operator

graph main(%x: f32[2,3], %w: f32[4,3], %b: f32[4]) -> %y {
  %y = FullyConnected(%x, %w) {act: SIGN_BIT} : f32[2,4]
}

rules {
  passes(replace_non_const_fc_with_batch_matmul)
  unchanged()
  refused("act is SIGN_BIT, for which there is no operator")
}
