# SPDX-License-Identifier: Apache-2.0
# Refused: %f: comes from Add, expected FullyConnected or BatchMatMul

graph main(%x: f32[2,4], %w: f32[4,4]) -> %z {
  %f/rhs = const f32[] 1.0
  %f = Add(%x, %f/rhs) : f32[2,4]
  %a = Quantize(%f) : u8[2,4] quant(scale: 0.5, zero_point: 3)
  %b = Dequantize(%a) : f32[2,4]
  %c = Quantize(%b) : i16[2,4] quant(scale: 0.25)
  %z = Dequantize(%c) : f32[2,4]
}

rules {
  passes(remove_qdq_for_mpo)
  unchanged()
  refused("comes from Add, expected FullyConnected or BatchMatMul")
}
