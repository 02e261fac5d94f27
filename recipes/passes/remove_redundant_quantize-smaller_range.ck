# SPDX-License-Identifier: Apache-2.0
# Refused: %a: is clamped to steps from -131 to 124, %b has steps from -128 to 127

graph main(%x: f32[2,8]) -> %y {
  %a = Quantize(%x) : i8[2,8] quant(scale: 0.5, zero_point: 3)
  %b = Quantize(%a) : i8[2,8] quant(scale: 0.5)
  %y = Dequantize(%b) : f32[2,8]
}

rules {
  passes(remove_redundant_quantize)
  unchanged()
  refused("is clamped to steps from -131 to 124, %b has steps from -128 to 127")
}
