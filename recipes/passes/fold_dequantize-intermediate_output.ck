# SPDX-License-Identifier: Apache-2.0
# Refused: %g: is an output of the graph, the picture would lose it

graph main(%i: i32[2]) -> %y, %g {
  %k = const i8[2,3] quant(scale: 0.5, zero_point: 1) [1, 2, 3, -4, 5, 127]
  %g = Gather(%k, %i) : i8[2,3] quant(scale: 0.5, zero_point: 1)
  %r = Dequantize(%g) : f32[2,3]
  %y = Neg(%r) : f32[2,3]
}

rules {
  passes(fold_dequantize)
  unchanged()
  refused("%g: is an output of the graph")
}
