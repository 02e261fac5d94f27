# SPDX-License-Identifier: Apache-2.0
# Refused: %b: has other quantization parameters than %x

graph main(%x: i8[2,3] quant(scale: 0.5, zero_point: 3)) -> %y {
  %b = Reshape(%x, [6])         : i8[6] quant(scale: 0.25, zero_point: 3)
  %y = Reshape(%b, [3, 2])      : i8[3,2] quant(scale: 0.5, zero_point: 3)
}

rules {
  passes(remove_redundant_reshape)
  unchanged()
  refused("has other quantization parameters")
}
