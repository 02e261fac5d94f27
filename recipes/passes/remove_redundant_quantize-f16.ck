# SPDX-License-Identifier: Apache-2.0
# Refused: the DEQUANTIZE reads f16, which has no grid.

graph main(%x: f16[2,8]) -> %y {
  %d = Dequantize(%x)
  %q = Quantize(%d) : i8[2,8] quant(scale: 0.5, zero_point: 3)
  %y = Dequantize(%q)
}

rules {
  passes(remove_redundant_quantize)
  unchanged()
  refused("%x: expected integers of up to 16 bits, got f16")
}
