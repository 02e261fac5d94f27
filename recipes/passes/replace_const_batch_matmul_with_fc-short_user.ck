# SPDX-License-Identifier: Apache-2.0
# Refused: the rank of %u grows, so it stays a BatchMatMul and would keep the old constant.

graph main(%x: f32[2,3,4], %y: f32[6,4]) -> %z, %u {
  %w = const f32[1,4,5] gaussian(0, 1)
  %z = BatchMatMul(%x, %w)
  %u = BatchMatMul(%y, %w)
}

rules {
  passes(replace_const_batch_matmul_with_fc)
  unchanged()
  refused("%w: is also read by BATCH_MATMUL, so the model would contain it twice")
}
