# SPDX-License-Identifier: Apache-2.0
# Refused: the second BatchMatMul has adj_x, so it would keep the old constant.

graph main(%x: f32[2,3,4], %y: f32[2,4,6]) -> %z, %t {
  %w = const f32[4,5] gaussian(0, 1)
  %t = BatchMatMul(%y, %w) {adj_x: true}
  %z = BatchMatMul(%x, %w)
}

rules {
  passes(replace_const_batch_matmul_with_fc)
  unchanged()
  refused("%w: is also read by BATCH_MATMUL, so the model would contain it twice")
}
