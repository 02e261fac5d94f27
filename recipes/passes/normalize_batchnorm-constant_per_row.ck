# SPDX-License-Identifier: Apache-2.0
# Refused: expected one number per channel, got one per row.

graph main(%x: f32[2,4]) -> %y {
  %w = const f32[4,4] uniform(-1, 1)
  %a = FullyConnected(%x, %w, none)
  %y = Div(%a, [[1.0], [2.0]])
}

rules {
  passes(normalize_batchnorm)
  unchanged()
  refused("expected a constant with one number per channel, got shape [2,1]")
}
