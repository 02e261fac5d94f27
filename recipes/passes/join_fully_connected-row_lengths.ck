# SPDX-License-Identifier: Apache-2.0
# Refused: one layer reads rows of 2 elements, the other rows of 6.

graph main(%x: f32[2,3,2]) -> %a, %b {
  %v = const f32[1,2] gaussian(0, 1)
  %w = const f32[3,6] gaussian(0, 1)
  %a = FullyConnected(%x, %v, none)
  %b = FullyConnected(%x, %w, none)
}

rules {
  passes(join_fully_connected)
  unchanged()
  refused("the same attributes, dtypes, rank, length of rows and quantization")
}
