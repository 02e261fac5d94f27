# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected the same value in two places

graph main(%x: f32[2,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %v = const f32[3,4] gaussian(0, 1)
  %y = Neg(%x)
  %l = FullyConnected(%x, %w)
  %r = FullyConnected(%y, %v)
  %z = Add(%l, %r)
}

rules {
  passes(fuse_horizontal_fc_layers)
  unchanged()
  refused("expected the same value in two places")
}
