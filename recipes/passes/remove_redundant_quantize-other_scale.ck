# SPDX-License-Identifier: Apache-2.0
# Refused: the two QUANTIZE have different scales.

graph main(%x: f32[2,8]) -> %y {
  %a = Quantize(%x) : i8[2,8] quant(scale: 0.5, zero_point: 3)
  %b = Quantize(%a) : i8[2,8] quant(scale: 0.25, zero_point: 3)
  %y = Dequantize(%b) : f32[2,8]
}

rules {
  passes(remove_redundant_quantize)
  unchanged()
  refused("%a: expected 0.25, the scale of %b, got 0.5")
}
