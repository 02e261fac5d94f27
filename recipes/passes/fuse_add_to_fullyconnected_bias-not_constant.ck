# SPDX-License-Identifier: Apache-2.0
# Refused: %dyn: is not constant, expected const f32[*,I|1]

graph main(%x: f32[2,4], %dyn: f32[4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %a = Add(%x, %dyn)
  %z = FullyConnected(%a, %w)
}

rules {
  passes(fuse_add_to_fullyconnected_bias)
  unchanged()
  refused("%dyn: is not constant")
}
