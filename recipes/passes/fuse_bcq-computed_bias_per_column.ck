# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected computed weights of rank 2, and no bias, because BCQ_FULLY_CONNECTED adds a bias to rows

graph main(%x: f32[3,4]) -> %mark, %y, %w/do_w_x, %w/alpha, %w/code, %w/number, %w/rows, %w/bits, %w {
  %mark = const i32[5] [-1999999973, 1, 1, 7, 1999999973]
  %w/do_w_x = const bool[1] [true]
  %w/alpha = const f32[2] [0.5, 0.25]
  %w/code = const i32[2,1] [[13], [6]]
  %w/number = const i32[1] [1]
  %w/rows = const i32[1] [2]
  %w/bits = const i32[1] [1]
  %w = const f32[2,4] [[0.5, -0.5, 0.5, 0.5], [-0.25, 0.25, 0.25, -0.25]]
  %y = FullyConnected(%w, %x, [1.0, 2.0, 3.0])
}

rules {
  passes(fuse_bcq)
  unchanged()
  refused("expected computed weights of rank 2, and no bias, because BCQ_FULLY_CONNECTED adds a bias to rows")
}
