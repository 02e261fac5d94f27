# SPDX-License-Identifier: Apache-2.0
# Refused: %l: %x, %b and %l differ in dtype or quantization, or are quantized per channel

graph main(%x: i8[1,6,4] quant(scale: 0.05)) -> %y {
  %a = Reshape(%x, [1,2,3,4]) {new_shape: [1,2,3,4]} : i8[1,2,3,4] quant(scale: 0.05)
  %b = Transpose(%a, [0,2,1,3]) : i8[1,3,2,4] quant(scale: 0.05)
  %l = Logistic(%b) : i8[1,3,2,4] quant(scale: 0.00390625, zero_point: -128)
  %y = Dequantize(%l) : f32[1,3,2,4]
}

rules {
  passes(forward_movement_chain)
  unchanged()
  refused("%l: %x, %b and %l differ in dtype or quantization, or are quantized per channel")
}
