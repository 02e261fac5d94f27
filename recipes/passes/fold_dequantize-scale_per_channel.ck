# SPDX-License-Identifier: Apache-2.0
# Refused: %k: expected one scale

graph main(%i: i32[2]) -> %y {
  %k = const i8[2,3] quant(scale: [0.5, 0.25]) [1, 2, 3, -4, 5, 127]
  %g = Gather(%k, %i) : i8[2,3] quant(scale: 0.5, zero_point: 1)
  %r = Dequantize(%g) : f32[2,3]
  %y = Neg(%r) : f32[2,3]
}

rules {
  passes(fold_dequantize)
  unchanged()
  refused("%k: expected one scale")
}
