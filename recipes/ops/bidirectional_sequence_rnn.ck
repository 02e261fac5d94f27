# SPDX-License-Identifier: Apache-2.0
# Two simple recurrent layers, one per direction.

graph main(%x: f32[1,3,2]) -> %y, %z {
  %fw_w = const f32[3,2] gaussian(0, 0.4)
  %fw_r = const f32[3,3] gaussian(0, 0.4)
  %fw_b = const f32[3] gaussian(0, 0.1)
  %fw_hidden: f32[1,3] variable
  %bw_w = const f32[3,2] gaussian(0, 0.4)
  %bw_r = const f32[3,3] gaussian(0, 0.4)
  %bw_b = const f32[3] gaussian(0, 0.1)
  %bw_hidden: f32[1,3] variable
  %y, %z = BidirectionalSequenceRnn(%x, %fw_w, %fw_r, %fw_b, %fw_hidden, %bw_w, %bw_r, %bw_b,
      %bw_hidden, none, none, none) {act: TANH}
}
