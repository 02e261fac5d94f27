# SPDX-License-Identifier: Apache-2.0
# Refused: the graph output would keep the old constant.

graph main(%x: f32[2,3,4]) -> %z, %w {
  %w = const f32[4,5] gaussian(0, 1)
  %z = BatchMatMul(%x, %w)
}

rules {
  passes(replace_const_batch_matmul_with_fc)
  unchanged()
  refused("%w: is also an output of the graph, so the model would contain it twice")
}
