# SPDX-License-Identifier: Apache-2.0
# Refused: the second BatchMatMul reads the matrix on the left, so it would keep the old constant.

graph main(%x: f32[2,3,4], %y: f32[2,5,6]) -> %z, %left {
  %w = const f32[4,5] gaussian(0, 1)
  %left = BatchMatMul(%w, %y)
  %z = BatchMatMul(%x, %w)
}

rules {
  passes(replace_const_batch_matmul_with_fc)
  unchanged()
  refused("%w: is also read by BATCH_MATMUL, so the model would contain it twice")
}
