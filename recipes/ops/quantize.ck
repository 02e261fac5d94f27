# SPDX-License-Identifier: Apache-2.0
# round(x / scale) + zero point, in eight bits.

graph main(%x: f32[2,3]) -> %y {
  %y = Quantize(%x)  : i8[2,3] quant(scale: 0.1, zero_point: -3)
}
