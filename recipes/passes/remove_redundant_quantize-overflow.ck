# SPDX-License-Identifier: Apache-2.0
# Refused: NaN and large numbers go to the lower end of the range of %a, and of %b; without %a, to the upper end.

graph main(%x: f32[2,8]) -> %y {
  %a = Quantize(%x) : i16[2,8] quant(scale: 0.5)
  %b = Quantize(%a) : i8[2,8] quant(scale: 0.5, zero_point: -5)
  %y = Dequantize(%b) : f32[2,8]
}

rules {
  passes(remove_redundant_quantize)
  unchanged()
  refused("%a and %b: expected both or no zero point below 0, got 0 and -5 (%x may be NaN or too large for int32)")
}
