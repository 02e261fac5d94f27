# SPDX-License-Identifier: Apache-2.0
# Refused: %a: act is RELU, expected NONE

graph main(%x: f32[2,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %a = Add(%x, 0.5) {act: RELU}
  %z = FullyConnected(%a, %w)
}

rules {
  passes(fuse_add_to_fullyconnected_bias)
  unchanged()
  refused("%a: act is RELU")
}
