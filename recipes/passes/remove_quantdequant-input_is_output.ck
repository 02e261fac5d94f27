# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is an output of the graph, and %x is an input or an output, too

graph main(%x: f32[4]) -> %y {
  %q = Quantize(%x) : u8[4] quant(scale: 0.5, zero_point: 3)
  %y = Dequantize(%q) : f32[4]
}

rules {
  passes(remove_quantdequant)
  unchanged()
  refused("%y: is an output of the graph, and %x is an input or an output, too")
}
