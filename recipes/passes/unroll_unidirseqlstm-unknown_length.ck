# SPDX-License-Identifier: Apache-2.0
# Refused: the length of the sequence is not known before the run

graph main(%x: f32[2,?,2]) -> %y {
  %wi = const f32[3,2] uniform(-1, 1)
  %wf = const f32[3,2] uniform(-1, 1)
  %wc = const f32[3,2] uniform(-1, 1)
  %wo = const f32[3,2] uniform(-1, 1)
  %ri = const f32[3,3] uniform(-1, 1)
  %rf = const f32[3,3] uniform(-1, 1)
  %rc = const f32[3,3] uniform(-1, 1)
  %ro = const f32[3,3] uniform(-1, 1)
  %bi = const f32[3] uniform(-1, 1)
  %bf = const f32[3] uniform(-1, 1)
  %bc = const f32[3] uniform(-1, 1)
  %bo = const f32[3] uniform(-1, 1)
  %h: f32[2,3] variable
  %c: f32[2,3] variable
  %y = UnidirectionalSequenceLstm(%x, %wi, %wf, %wc, %wo, %ri, %rf, %rc, %ro,
    none, none, none, %bi, %bf, %bc, %bo, none, none,
    %h, %c) {act: TANH}
}

rules {
  passes(unroll_unidirseqlstm)
  unchanged()
  refused("expected a known length and no empty dimension, got f32[2,?,2]")
}
