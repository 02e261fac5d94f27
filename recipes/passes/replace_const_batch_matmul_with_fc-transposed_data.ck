# SPDX-License-Identifier: Apache-2.0
# Refused: %z: adj_x is True, expected False

graph main(%x: f32[2,4,3]) -> %z {
  %w = const f32[4,5] gaussian(0, 1)
  %z = BatchMatMul(%x, %w) {adj_x: true}
}

rules {
  passes(replace_const_batch_matmul_with_fc)
  unchanged()
  refused("adj_x is True")
}
