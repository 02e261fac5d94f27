# SPDX-License-Identifier: Apache-2.0
# A forward and a backward LSTM over three time steps; no peephole, no projection.

graph main(%x: f32[1,3,2]) -> %y, %z {
  %fw_w_i = const f32[3,2] gaussian(0, 0.4)
  %fw_w_f = const f32[3,2] gaussian(0, 0.4)
  %fw_w_c = const f32[3,2] gaussian(0, 0.4)
  %fw_w_o = const f32[3,2] gaussian(0, 0.4)
  %fw_r_i = const f32[3,3] gaussian(0, 0.4)
  %fw_r_f = const f32[3,3] gaussian(0, 0.4)
  %fw_r_c = const f32[3,3] gaussian(0, 0.4)
  %fw_r_o = const f32[3,3] gaussian(0, 0.4)
  %fw_b_i = const f32[3] gaussian(0, 0.1)
  %fw_b_f = const f32[3] gaussian(0, 0.1)
  %fw_b_c = const f32[3] gaussian(0, 0.1)
  %fw_b_o = const f32[3] gaussian(0, 0.1)
  %bw_w_i = const f32[3,2] gaussian(0, 0.4)
  %bw_w_f = const f32[3,2] gaussian(0, 0.4)
  %bw_w_c = const f32[3,2] gaussian(0, 0.4)
  %bw_w_o = const f32[3,2] gaussian(0, 0.4)
  %bw_r_i = const f32[3,3] gaussian(0, 0.4)
  %bw_r_f = const f32[3,3] gaussian(0, 0.4)
  %bw_r_c = const f32[3,3] gaussian(0, 0.4)
  %bw_r_o = const f32[3,3] gaussian(0, 0.4)
  %bw_b_i = const f32[3] gaussian(0, 0.1)
  %bw_b_f = const f32[3] gaussian(0, 0.1)
  %bw_b_c = const f32[3] gaussian(0, 0.1)
  %bw_b_o = const f32[3] gaussian(0, 0.1)
  %fw_hidden: f32[1,3] variable
  %fw_cell: f32[1,3] variable
  %bw_hidden: f32[1,3] variable
  %bw_cell: f32[1,3] variable
  %y, %z = BidirectionalSequenceLstm(%x, %fw_w_i, %fw_w_f, %fw_w_c, %fw_w_o, %fw_r_i, %fw_r_f,
      %fw_r_c, %fw_r_o, none, none, none, %fw_b_i, %fw_b_f, %fw_b_c, %fw_b_o, none, none, %bw_w_i,
      %bw_w_f, %bw_w_c, %bw_w_o, %bw_r_i, %bw_r_f, %bw_r_c, %bw_r_o, none, none, none, %bw_b_i,
      %bw_b_f, %bw_b_c, %bw_b_o, none, none, %fw_hidden, %fw_cell, %bw_hidden, %bw_cell, none,
      none, none, none, none, none, none, none, none) {act: TANH, time_major: false}
}
