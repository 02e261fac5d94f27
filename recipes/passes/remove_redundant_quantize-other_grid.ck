# SPDX-License-Identifier: Apache-2.0
# Refused: %a: expected the grid of %b, got another one

graph main(%x: f32[2,8]) -> %y {
  %a = Quantize(%x) : i8[2,8] quant(scale: 0.5, zero_point: 3)
  %b = Quantize(%a) : i8[2,8] quant(scale: 0.25, zero_point: 3)
  %y = Dequantize(%b) : f32[2,8]
}

rules {
  passes(remove_redundant_quantize)
  unchanged()
  refused("expected the grid of %b, got another one")
}
