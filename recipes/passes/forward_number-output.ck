# SPDX-License-Identifier: Apache-2.0
# Refused: the scaled keys are an output of the graph.

graph main(%x: f32[2,1,4], %cache: f32[2,5,4]) -> %y, %k {
  %w = const f32[4,4] gaussian(0, 0.3)
  %q = FullyConnected(%x, %w) {keep_num_dims: true}
  %k = Mul(%cache, 0.5)
  %y = BatchMatMul(%q, %k) {adj_y: true}
}

rules {
  passes(forward_number)
  unchanged()
  refused("%k: is an output of the graph, and %cache is an input or an output, too")
}
