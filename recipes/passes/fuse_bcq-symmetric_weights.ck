# SPDX-License-Identifier: Apache-2.0
# Done: codes of the rows of symmetric weights are as well codes of their columns.

graph main(%x: f32[3,2]) -> %mark, %y, %w/do_w_x, %w/alpha, %w/code, %w/number, %w/rows, %w/bits, %w {
  %mark = const i32[5] [-1999999973, 1, 1, 7, 1999999973]
  %w/do_w_x = const bool[1] [true]
  %w/alpha = const f32[2] [0.5, 0.5]
  %w/code = const i32[2,1] [[1], [2]]
  %w/number = const i32[1] [1]
  %w/rows = const i32[1] [2]
  %w/bits = const i32[1] [1]
  %w = const f32[2,2] [[0.5, -0.5], [-0.5, 0.5]]
  %y = FullyConnected(%x, %w)
}

rules {
  passes(fuse_bcq)
  order(Transpose, BcqFullyConnected, Transpose)
}
