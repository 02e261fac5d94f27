# SPDX-License-Identifier: Apache-2.0
# Refused: %hidden: is a variable, which may change before it would be read

graph main(%x: f32[1,2]) -> %z {
  %w = const f32[3,2] gaussian(0, 0.4)
  %r = const f32[3,3] gaussian(0, 0.4)
  %b = const f32[3] gaussian(0, 0.1)
  %hidden: f32[1,3] variable
  %t = Reshape(%hidden, [3])
  %y = Rnn(%x, %w, %r, %b, %hidden) {act: TANH}
  %u = Abs(%t)
  %k = Reshape(%u, [1,3])
  %z = Sub(%y, %k)
}

rules {
  passes(remove_reshape_around_unaryop)
  unchanged()
  refused("%hidden: is a variable, which may change before it would be read")
}
