# SPDX-License-Identifier: Apache-2.0
# Done: fc(x, w1, b1) + fc(x, w2, b2)  ==  fc(x, w1 + w2, b1 + b2).

graph main(%x: f32[2,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %v = const f32[3,4] gaussian(0, 1)
  %l = FullyConnected(%x, %w)
  %r = FullyConnected(%x, %v)
  %z = Add(%l, %r) {act: RELU}
}

rules {
  passes(fuse_horizontal_fc_layers)
  order(FullyConnected)
}
