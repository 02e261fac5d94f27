# SPDX-License-Identifier: Apache-2.0
# Refused: %w1: expected a constant that is not packed, sparse or compressed

graph main(%x: f32[5,8], %w1: f32[4,8]) -> %z {
  %w2 = const f32[6,8] gaussian(0, 0.5)
  %y1 = FullyConnected(%x, %w1)
  %y2 = FullyConnected(%x, %w2)
  %z = Concatenation(%y2, %y1) {axis: 1}
}

rules {
  passes(join_fully_connected)
  unchanged()
  refused("%w1: expected a constant that is not packed, sparse or compressed")
}
