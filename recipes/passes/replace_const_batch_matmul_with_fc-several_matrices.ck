# SPDX-License-Identifier: Apache-2.0
# Refused: %w: shape is [2,4,5], expected [*,_,_]

graph main(%x: f32[2,3,4]) -> %z {
  %w = const f32[2,4,5] gaussian(0, 1)
  %z = BatchMatMul(%x, %w)
}

rules {
  passes(replace_const_batch_matmul_with_fc)
  unchanged()
  refused("shape is [2,4,5]")
}
