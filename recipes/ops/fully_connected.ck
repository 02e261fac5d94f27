# SPDX-License-Identifier: Apache-2.0
# A dense layer with a bias and an activation.

graph main(%x: f32[2,4]) -> %y {
  %w = const f32[3,4] gaussian(0, 0.5)
  %b = const f32[3] gaussian(0, 0.1)
  %y = FullyConnected(%x, %w, %b) {act: RELU}
}
