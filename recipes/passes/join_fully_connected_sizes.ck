# SPDX-License-Identifier: Apache-2.0
# Done: the layers have different numbers of units, so SPLIT_V splits the result.

graph main(%x: f32[5,8]) -> %z {
  %w1 = const f32[4,8] gaussian(0, 0.5)
  %w2 = const f32[6,8] gaussian(0, 0.5)
  %y1 = FullyConnected(%x, %w1)
  %y2 = FullyConnected(%x, %w2)
  %z = Concatenation(%y2, %y1) {axis: 1}
}

rules {
  passes(join_fully_connected)
  order(FullyConnected, SplitV, Concatenation)
}
