# SPDX-License-Identifier: Apache-2.0
# Refused: %z: has other quantization parameters than %c

graph main(%x: i8[1,1,4,1] quant(scale: 0.5, zero_point: 3)) -> %z {
  %w = const i8[1,1,3,1] quant(scale: 0.1) [[[[1], [2], [3]]]]
  %p = Pad(%x, [[0, 0], [0, 0], [2, 2], [0, 0]]) : i8[1,1,8,1] quant(scale: 0.5, zero_point: 3)
  %c = Conv2D(%p, %w) {padding: VALID} : i8[1,1,6,1] quant(scale: 2.0, zero_point: 0)
  %z = Slice(%c, [0, 0, 0, 0], [1, 1, 4, 1]) : i8[1,1,4,1] quant(scale: 1.0, zero_point: 0)
}

rules {
  passes(fuse_slice_with_pad)
  unchanged()
  refused("%z: has other quantization parameters than %c")
}
