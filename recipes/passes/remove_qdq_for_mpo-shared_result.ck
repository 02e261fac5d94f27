# SPDX-License-Identifier: Apache-2.0
# Refused: %c: has users other than Dequantize

graph main(%x: f32[2,4], %w: f32[4,4]) -> %z, %d {
  %f = FullyConnected(%x, %w) : f32[2,4]
  %a = Quantize(%f) : u8[2,4] quant(scale: 0.5, zero_point: 3)
  %b = Dequantize(%a) : f32[2,4]
  %c = Quantize(%b) : i16[2,4] quant(scale: 0.25)
  %z = Dequantize(%c) : f32[2,4]
  %d = Quantize(%c) : i8[2,4] quant(scale: 0.1, zero_point: -3)
}

rules {
  passes(remove_qdq_for_mpo)
  unchanged()
  refused("has users other than Dequantize")
}
