# SPDX-License-Identifier: Apache-2.0
# Refused: expected a multiple of 16 rows, got 24

graph main(%x: f32[2,3]) -> %y {
  %w = const f32[24,3] uniform(-1, 1)
  %y = FullyConnected(%x, %w, none) {act: RELU}
}

rules {
  passes(shuffle_weight_to_16x1float32)
  unchanged()
  refused("expected weights with a multiple of 16 rows, got 24")
}
