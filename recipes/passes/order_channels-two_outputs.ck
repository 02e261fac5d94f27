# SPDX-License-Identifier: Apache-2.0
# Refused: %r becomes the output %s, so it cannot become the output %q, too.

graph main(%x: f32[2,2]) -> %s, %q {
  %t = Transpose(%x, [0, 1])
  %r = Relu(%t)
  %s = Split(1, %r) {num_splits: 1}
  %q = Squeeze(%s)
}

rules {
  passes(order_channels)
  unchanged()
  refused("%q: is an output of the graph, and %r takes the place of another output")
}
