# SPDX-License-Identifier: Apache-2.0
# Refused: the sequence is too long: each step becomes a dozen operators.

graph main(%x: f32[1,4097,1]) -> %y {
  %w = const f32[1,1] uniform(-1, 1)
  %b = const f32[1] uniform(-1, 1)
  %h: f32[1,1] variable
  %c: f32[1,1] variable
  %y = UnidirectionalSequenceLstm(%x, %w, %w, %w, %w, %w, %w, %w, %w,
    none, none, none, %b, %b, %b, %b, none, none,
    %h, %c) {act: TANH}
}

rules {
  passes(unroll_unidirseqlstm)
  unchanged()
  refused("expected at most 4096 steps, got 4097")
}
