# SPDX-License-Identifier: Apache-2.0
# Refused: %w1: has other users, so a second copy would be made

graph main(%x: f32[5,8]) -> %z {
  %w1 = const f32[4,8] gaussian(0, 0.5)
  %w2 = const f32[6,8] gaussian(0, 0.5)
  %y1 = FullyConnected(%x, %w1)
  %y2 = FullyConnected(%x, %w2)
  %r = Neg(%x)
  %y3 = FullyConnected(%r, %w1)
  %z = Concatenation(%y2, %y1, %y3) {axis: 1}
}

rules {
  passes(join_fully_connected)
  unchanged()
  refused("%w1: has other users, so a second copy would be made")
}
