# SPDX-License-Identifier: Apache-2.0
# Refused: %hidden: is a variable, which may change between the layers

graph main(%x: f32[1,2]) -> %z {
  %w = const f32[3,2] gaussian(0, 0.4)
  %r = const f32[3,3] gaussian(0, 0.4)
  %b = const f32[3] gaussian(0, 0.1)
  %v = const f32[4,3] gaussian(0, 1)
  %v2 = const f32[4,3] gaussian(0, 1)
  %hidden: f32[1,3] variable
  %t = FullyConnected(%hidden, %v, none)
  %y = Rnn(%x, %w, %r, %b, %hidden) {act: TANH}
  %u = FullyConnected(%hidden, %v2, none)
  %q = Sub(%u, %t)
  %z = Relu(%q)
}

rules {
  passes(join_fully_connected)
  unchanged()
  refused("%hidden: is a variable, which may change between the layers")
}
