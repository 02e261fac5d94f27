# SPDX-License-Identifier: Apache-2.0
# Refused: the grid of the FAKE_QUANT has negative numbers, which the RELU makes 0.

graph main(%x: f32[40]) -> %z {
  %y = FakeQuant(%x) {min: -1.0, max: 1.0, num_bits: 8}
  %z = Relu(%y)
}

rules {
  passes(remove_redundant_activation)
  unchanged()
  refused("%y: min is -1, expected 0 or above")
}
