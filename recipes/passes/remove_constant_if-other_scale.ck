# SPDX-License-Identifier: Apache-2.0
# Refused: the branch reads the stored integers with another scale than that of the operand.

graph main(%x: i8[2,3] quant(scale: 0.5, zero_point: 0)) -> %y {
  %y = If(true, %x) {then_graph: @first, else_graph: @second} : f32[2,3]
}

graph first(%p: i8[2,3] quant(scale: 0.25, zero_point: 1)) -> %y {
  %y = Dequantize(%p)
}

graph second(%p: i8[2,3] quant(scale: 0.25, zero_point: 1)) -> %y {
  %d = Dequantize(%p)
  %y = Neg(%d)
}

rules {
  passes(remove_constant_if)
  unchanged()
  refused("%x: has other quantization parameters than %p of first")
}
