# SPDX-License-Identifier: Apache-2.0
# Quantization to 8 bits: round(x / scale) + zero point.

graph main(%x: f32[2,3]) -> %y {
  %y = Quantize(%x)  : i8[2,3] quant(scale: 0.1, zero_point: -3)
}
