# SPDX-License-Identifier: Apache-2.0
# Refused: a number divided by %x is not linear in %x.

graph main(%x: f32[2,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %a = Div(2.0, %x)
  %z = FullyConnected(%a, %w)
}

rules {
  passes(fuse_mul_to_fullyconnected_weights)
  unchanged()
  refused("%x: is not constant")
}
