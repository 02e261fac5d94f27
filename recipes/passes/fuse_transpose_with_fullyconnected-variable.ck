# SPDX-License-Identifier: Apache-2.0
# Refused: %z: expected an operand from a Transpose that swaps the last two axes, is used once and reads no variable

graph main(%x: f32[1,2]) -> %z {
  %w = const f32[3,2] gaussian(0, 0.4)
  %r = const f32[3,3] gaussian(0, 0.4)
  %b = const f32[3] gaussian(0, 0.1)
  %hidden: f32[1,3] variable
  %t = Transpose(%hidden, [1,0])
  %y = Rnn(%x, %w, %r, %b, %hidden) {act: TANH}
  %k = Reshape(%y, [3,1])
  %z = FullyConnected(%k, %t, none)
}

rules {
  passes(fuse_transpose_with_fullyconnected)
  unchanged()
  refused("%z: expected an operand from a Transpose that swaps the last two axes, is used once and reads no variable")
}
