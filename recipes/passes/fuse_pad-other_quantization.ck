# SPDX-License-Identifier: Apache-2.0
# Refused: %p: has other quantization parameters than %x

graph main(%x: i8[1,4,4,1] quant(scale: 0.5, zero_point: 3)) -> %z {
  %w = const i8[1,3,3,1] quant(scale: 0.1) [[[[1], [2], [3]], [[4], [5], [6]], [[7], [8], [9]]]]
  %p = Pad(%x, [[0, 0], [1, 1], [1, 1], [0, 0]]) : i8[1,6,6,1] quant(scale: 0.25, zero_point: 3)
  %z = Conv2D(%p, %w) {padding: VALID} : i8[1,4,4,1] quant(scale: 2.0, zero_point: 0)
}

rules {
  passes(fuse_pad)
  unchanged()
  refused("%p: has other quantization parameters than %x")
}
