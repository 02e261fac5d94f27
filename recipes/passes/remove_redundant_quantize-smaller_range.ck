# SPDX-License-Identifier: Apache-2.0
# Refused: the range of the first QUANTIZE does not include that of the second.

graph main(%x: f32[2,8]) -> %y {
  %a = Quantize(%x) : i8[2,8] quant(scale: 0.5, zero_point: 3)
  %b = Quantize(%a) : i8[2,8] quant(scale: 0.5)
  %y = Dequantize(%b) : f32[2,8]
}

rules {
  passes(remove_redundant_quantize)
  unchanged()
  refused("is clamped to -131 to 124 times the scale, %b to -128 to 127")
}
