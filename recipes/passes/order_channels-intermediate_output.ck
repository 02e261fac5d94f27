# SPDX-License-Identifier: Apache-2.0
# Refused: %s: is an output of the graph

graph main(%x: f32[1,6,6,4]) -> %y, %s, %o {
  %u = const f32[16,1,1,4] gaussian(0, 1)
  %w = const f32[5,1,1,16] gaussian(0, 1)
  %c = Conv2D(%x, %u)
  %r = Reshape(%c, [1, 6, 6, 2, 8])
  %t = Transpose(%r, [0, 1, 2, 4, 3])
  %s = Reshape(%t, [1, 6, 6, 16])
  %y = Conv2D(%s, %w, [0.1, 0.2, 0.3, 0.4, 0.5])
  %o = Relu(%c)
}

rules {
  passes(order_channels)
  unchanged()
  refused("%s: is an output of the graph")
}
