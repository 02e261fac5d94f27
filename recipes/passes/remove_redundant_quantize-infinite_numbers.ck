# SPDX-License-Identifier: Apache-2.0
# Refused: the largest numbers of the grid are infinite in float32.

graph main(%x: i8[2,8] quant(scale: 1e37)) -> %y {
  %d = Dequantize(%x)
  %q = Quantize(%d) : i8[2,8] quant(scale: 1e37)
  %y = Dequantize(%q)
}

rules {
  passes(remove_redundant_quantize)
  unchanged()
  refused("%x: expected scales above 0 for which all values are finite in float32")
}
