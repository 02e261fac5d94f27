# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected a known number of channels, got f32[?,?]

graph main(%x: f32[2,8]) -> %y, %z {
  %w = const f32[4,8] gaussian(0, 1)
  %v = const f32[6,8] gaussian(0, 1)
  %y = FullyConnected(%x, %w, none) : f32[?,?]
  %z = FullyConnected(%x, %v, none) : f32[?,?]
}

rules {
  passes(join_fully_connected)
  unchanged()
  refused("%y: expected a known number of channels, got f32[?,?]")
}
