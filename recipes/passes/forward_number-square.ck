# SPDX-License-Identifier: Apache-2.0
# Refused: %m: comes from BatchMatMul, past which the pass moves no factor

graph main(%x: f32[2,5,4]) -> %y {
  %w = const f32[4,4] gaussian(0, 0.3)
  %q = FullyConnected(%x, %w) {keep_num_dims: true}
  %m = BatchMatMul(%q, %q) {adj_y: true}
  %y = Mul(%m, 0.5)
}

rules {
  passes(forward_number)
  unchanged()
  refused("%m: comes from BatchMatMul, past which the pass moves no factor")
}
