# SPDX-License-Identifier: Apache-2.0
# Refused: %r: is an output of the graph, the picture would lose it

graph main(%x: f32[2,4]) -> %z, %r {
  %w = const f32[3,4] gaussian(0, 1)
  %v = const f32[3,4] gaussian(0, 1)
  %l = FullyConnected(%x, %w)
  %r = FullyConnected(%x, %v)
  %z = Add(%l, %r)
}

rules {
  passes(fuse_horizontal_fc_layers)
  unchanged()
  refused("%r: is an output of the graph")
}
