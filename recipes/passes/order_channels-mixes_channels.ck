# SPDX-License-Identifier: Apache-2.0
# Refused: %q: Cumsum needs its channels in one order

graph main(%c: f32[1,6,6,16]) -> %y {
  %w = const f32[5,1,1,16] gaussian(0, 1)
  %r = Reshape(%c, [1, 6, 6, 2, 8])
  %t = Transpose(%r, [0, 1, 2, 4, 3])
  %s = Reshape(%t, [1, 6, 6, 16])
  %q = Cumsum(%s, 3)
  %y = Conv2D(%q, %w, [0.1, 0.2, 0.3, 0.4, 0.5])
}

rules {
  passes(order_channels)
  unchanged()
  refused("%q: Cumsum needs its channels in one order")
}
