# SPDX-License-Identifier: Apache-2.0
# Done: dequantize(quantize(x)) becomes x: values are no longer rounded or clamped.

graph main(%x: f32[4]) -> %y {
  %a = Neg(%x) : f32[4]
  %q = Quantize(%a) : u8[4] quant(scale: 0.5, zero_point: 3)
  %y = Dequantize(%q) : f32[4]
}

rules {
  passes(remove_quantdequant)
  order(Neg)
}
