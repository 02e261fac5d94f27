# SPDX-License-Identifier: Apache-2.0
# Done: fc(x + c, w, b)  ==  fc(x, w, fc(c, w, b)).

graph main(%x: f32[2,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %a = Add(%x, 0.5)
  %z = FullyConnected(%a, %w) {act: RELU}
}

rules {
  passes(fuse_add_to_fullyconnected_bias)
  order(FullyConnected, FullyConnected)
}
