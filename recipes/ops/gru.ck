# SPDX-License-Identifier: Apache-2.0
# A gated recurrent unit, fused from a loop (circle only).

graph main(%x: f32[3,1,2]) -> %y {
  %hh = const f32[9,2] gaussian(0, 0.4)
  %hh_bias = const f32[9] gaussian(0, 0.1)
  %hi = const f32[9,3] gaussian(0, 0.4)
  %hi_bias = const f32[9] gaussian(0, 0.1)
  %state = const f32[1,3] zeros
  %y = Gru(%x, %hh, %hh_bias, %hi, %hi_bias, %state) {return_sequences: false, time_major: true}
}
