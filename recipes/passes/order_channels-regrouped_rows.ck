# SPDX-License-Identifier: Apache-2.0
# Refused: %y: FullyConnected needs its channels in one order, or shares its weights with another operator

graph main(%x: f32[1,6,6,4]) -> %y {
  %u = const f32[8,1,1,4] gaussian(0, 1)
  %v = const f32[8,3,3,4] gaussian(0, 1)
  %w = const f32[5,32] gaussian(0, 1)
  %a = Conv2D(%x, %u, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
  %b = Conv2D(%x, %v, [0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]) {act: RELU}
  %c = Concatenation(%a, %b) {axis: 3}
  %r = Reshape(%c, [1, 6, 6, 2, 8])
  %t = Transpose(%r, [0, 1, 2, 4, 3])
  %s = Reshape(%t, [1, 6, 6, 16])
  %y = FullyConnected(%s, %w, [0.1, 0.2, 0.3, 0.4, 0.5])
}

rules {
  passes(order_channels)
  unchanged()
  refused("%y: FullyConnected needs its channels in one order, or shares its weights with another operator")
}
