# SPDX-License-Identifier: Apache-2.0
# Refused: no other layer of %x that can be joined has the same attributes

graph main(%x: f32[5,8]) -> %z {
  %w1 = const f32[4,8] gaussian(0, 0.5)
  %w2 = const f32[6,8] gaussian(0, 0.5)
  %y1 = FullyConnected(%x, %w1)
  %y2 = FullyConnected(%x, %w2) {act: RELU}
  %z = Concatenation(%y2, %y1) {axis: 1}
}

rules {
  passes(join_fully_connected)
  unchanged()
  refused("no other layer of %x that can be joined has the same attributes")
}
