# SPDX-License-Identifier: Apache-2.0
# Refused: %t: has other quantization parameters than %x

graph main(%x: i8[6] quant(scale: 0.05)) -> %y {
  %t/shape = const i32[2] [3, 2]
  %t = Reshape(%x, %t/shape) : i8[3,2] quant(scale: 0.1)
  %l = Logistic(%t) : i8[3,2] quant(scale: 0.00390625, zero_point: -128)
  %y = Dequantize(%l) : f32[3,2]
}

rules {
  passes(forward_reshape_to_unaryop)
  unchanged()
  refused("has other quantization parameters than %x")
}
