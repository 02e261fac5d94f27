# SPDX-License-Identifier: Apache-2.0
# Refused: %p: has other quantization parameters than %x

graph main(%x: i8[2,4] quant(scale: 0.1, zero_point: 5)) -> %a, %b {
  %p, %q = Split(1, %x) {num_splits: 2} : i8[2,2] quant(scale: 0.1, zero_point: -1), i8[2,2] quant(scale: 0.1)
  %a = Relu(%p)                          : i8[2,2] quant(scale: 0.1, zero_point: -1)
  %b = Relu(%q)                          : i8[2,2] quant(scale: 0.1, zero_point: -1)
}

rules {
  passes(forward_split)
  unchanged()
  refused("%p: has other quantization parameters than %x")
}
