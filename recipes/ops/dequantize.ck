# SPDX-License-Identifier: Apache-2.0
# Conversion to real numbers: (q - zero point) * scale.

graph main(%x: u8[2,3] quant(scale: 0.5, zero_point: 128)) -> %y {
  %y = Dequantize(%x)  : f32[2,3]
}
