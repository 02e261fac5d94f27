# SPDX-License-Identifier: Apache-2.0
# One step of an LSTM; its state is kept between runs.

graph main(%x: f32[1,2]) -> %y {
  %w_i = const f32[3,2] gaussian(0, 0.4)
  %w_f = const f32[3,2] gaussian(0, 0.4)
  %w_c = const f32[3,2] gaussian(0, 0.4)
  %w_o = const f32[3,2] gaussian(0, 0.4)
  %r_i = const f32[3,3] gaussian(0, 0.4)
  %r_f = const f32[3,3] gaussian(0, 0.4)
  %r_c = const f32[3,3] gaussian(0, 0.4)
  %r_o = const f32[3,3] gaussian(0, 0.4)
  %b_i = const f32[3] gaussian(0, 0.1)
  %b_f = const f32[3] gaussian(0, 0.1)
  %b_c = const f32[3] gaussian(0, 0.1)
  %b_o = const f32[3] gaussian(0, 0.1)
  %hidden: f32[1,3] variable
  %cell: f32[1,3] variable
  %y = Lstm(%x, %w_i, %w_f, %w_c, %w_o, %r_i, %r_f, %r_c, %r_o, none, none, none, %b_i, %b_f,
      %b_c, %b_o, none, none, %hidden, %cell) {act: TANH}
}
