# SPDX-License-Identifier: Apache-2.0
# Refused: %r: act is RELU, expected NONE

graph main(%x: f32[2,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %v = const f32[3,4] gaussian(0, 1)
  %l = FullyConnected(%x, %w)
  %r = FullyConnected(%x, %v) {act: RELU}
  %z = Add(%l, %r)
}

rules {
  passes(fuse_horizontal_fc_layers)
  unchanged()
  refused("act is RELU")
}
