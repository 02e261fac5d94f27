# SPDX-License-Identifier: Apache-2.0
# Refused: FULLY_CONNECTED keeps the rank of its input.

graph main(%x: f32[3,4]) -> %z {
  %w = const f32[1,4,5] gaussian(0, 1)
  %z = BatchMatMul(%x, %w)
}

rules {
  passes(replace_const_batch_matmul_with_fc)
  unchanged()
  refused("has shape [1,3,5], the rewrite gives [3,5]")
}
