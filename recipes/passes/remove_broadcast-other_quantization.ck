# SPDX-License-Identifier: Apache-2.0
# Refused: %b: has other quantization parameters than %y

graph main(%x: i8[4,8] quant(scale: 0.5), %y: i8[1,8] quant(scale: 0.5)) -> %z {
  %b = BroadcastTo(%y, [4, 8]) : i8[4,8] quant(scale: 0.25)
  %z = Add(%x, %b)             : i8[4,8] quant(scale: 1.0)
}

rules {
  passes(remove_broadcast)
  unchanged()
  refused("%b: has other quantization parameters than %y")
}
