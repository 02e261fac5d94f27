# SPDX-License-Identifier: Apache-2.0
# A simple recurrent layer over three time steps.

graph main(%x: f32[1,3,2]) -> %y {
  %w = const f32[3,2] gaussian(0, 0.4)
  %r = const f32[3,3] gaussian(0, 0.4)
  %b = const f32[3] gaussian(0, 0.1)
  %hidden: f32[1,3] variable
  %y = UnidirectionalSequenceRnn(%x, %w, %r, %b, %hidden) {act: TANH}
}
