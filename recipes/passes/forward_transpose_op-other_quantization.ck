# SPDX-License-Identifier: Apache-2.0
# Refused: %t: has other quantization parameters than %x

graph main(%x: i8[2,3,4,5] quant(scale: 0.5)) -> %y {
  %t/perm = const i32[4] [0, 3, 1, 2]
  %t = Transpose(%x, %t/perm) : i8[2,5,3,4] quant(scale: 0.25)
  %y = Relu(%t) : i8[2,5,3,4] quant(scale: 0.25)
}

rules {
  passes(forward_transpose_op)
  unchanged()
  refused("has other quantization parameters than %x")
}
