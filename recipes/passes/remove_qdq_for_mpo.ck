# SPDX-License-Identifier: Apache-2.0
# Done: dq(q2(dq(q1(product)))) becomes dq(q2(product)): values are no longer rounded to the first grid.

graph main(%x: f32[2,4], %w: f32[4,4]) -> %z {
  %f = FullyConnected(%x, %w) : f32[2,4]
  %a = Quantize(%f) : u8[2,4] quant(scale: 0.5, zero_point: 3)
  %b = Dequantize(%a) : f32[2,4]
  %c = Quantize(%b) : i16[2,4] quant(scale: 0.25)
  %z = Dequantize(%c) : f32[2,4]
}

rules {
  passes(remove_qdq_for_mpo)
  order(FullyConnected, Quantize, Dequantize)
}
