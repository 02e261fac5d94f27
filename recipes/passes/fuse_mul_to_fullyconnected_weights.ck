# SPDX-License-Identifier: Apache-2.0
# Done: fc(x * c, w)  ==  fc(x, w * c).

graph main(%x: f32[2,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %a = Mul(0.5, %x)
  %z = FullyConnected(%a, %w) {act: RELU}
}

rules {
  passes(fuse_mul_to_fullyconnected_weights)
  order(FullyConnected)
}
