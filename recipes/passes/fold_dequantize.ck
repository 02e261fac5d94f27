# SPDX-License-Identifier: Apache-2.0
# Done: DEQUANTIZE of a constant becomes a constant, and a lookup reads the dequantized table.

graph main(%x: f32[1,3]) -> %y {
  %k = const i8[3] quant(scale: 0.5) [1, 2, -3]
  %r = Dequantize(%k) : f32[3]
  %y = Add(%x, %r) : f32[1,3]
}

rules {
  passes(fold_dequantize)
  order(Add)
}
