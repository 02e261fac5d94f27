# SPDX-License-Identifier: Apache-2.0
# Done: QUANTIZE to the parameters of its operand is removed; of two in a row the first, if both round alike.
# A recorded range (min, max) has no effect on integers.

graph main(%x: f32[2,8]) -> %y {
  %a = Quantize(%x) : i8[2,8] quant(scale: 0.5, zero_point: 3)
  %b = Quantize(%a) : i8[2,8] quant(scale: 0.5, zero_point: 3, min: -60.0, max: 60.0)
  %y = Dequantize(%b) : f32[2,8]
}

rules {
  passes(remove_redundant_quantize)
  order(Quantize, Dequantize)
}
