# SPDX-License-Identifier: Apache-2.0
# Refused: %b: has other quantization parameters than %a

graph main(%x: i8[1,4] quant(scale: 0.5)) -> %y {
  %a = Relu(%x)                                   : i8[1,4] quant(scale: 0.5)
  %b = Pad(%a, [[0, 0], [2, 1]])                  : i8[1,7] quant(scale: 0.25)
  %c = StridedSlice(%b, [0, 2], [1, 6], [1, 1])   : i8[1,4] quant(scale: 0.5)
  %y = Relu(%c)                                   : i8[1,4] quant(scale: 0.5)
}

rules {
  passes(remove_unnecessary_pad)
  unchanged()
  refused("%b: has other quantization parameters than %a")
}
