# SPDX-License-Identifier: Apache-2.0
# Refused: the transposed matrix would be a second copy.

graph main(%x: f32[2,3,4], %i: i32[2]) -> %z, %rows {
  %w = const f32[4,5] gaussian(0, 1)
  %rows = Gather(%w, %i)
  %z = BatchMatMul(%x, %w)
}

rules {
  passes(replace_const_batch_matmul_with_fc)
  unchanged()
  refused("%w: is also read by GATHER, so the model would contain it twice")
}
