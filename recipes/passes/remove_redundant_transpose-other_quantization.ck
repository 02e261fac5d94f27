# SPDX-License-Identifier: Apache-2.0
# Refused: %a: has other quantization parameters than %x

graph main(%x: i8[2,3] quant(scale: 0.5, zero_point: 3)) -> %y {
  %a = Transpose(%x, [1, 0])    : i8[3,2] quant(scale: 0.25, zero_point: 3)
  %b = Transpose(%a, [1, 0])    : i8[2,3] quant(scale: 0.5, zero_point: 3)
  %y = Reshape(%b, [6])         : i8[6] quant(scale: 0.5, zero_point: 3)
}

rules {
  passes(remove_redundant_transpose)
  unchanged()
  refused("has other quantization parameters")
}
