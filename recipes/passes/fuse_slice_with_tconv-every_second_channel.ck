# SPDX-License-Identifier: Apache-2.0
# Refused: %z: expected strides of 1, got [1, 1, 1, 2]

graph main(%x: f32[1,4,4,2]) -> %z {
  %w = const f32[3,4,4,2] gaussian(0, 1)
  %y = TransposeConv([1,10,10,3], %w, %x) {padding: VALID, stride_h: 2, stride_w: 2}
  %z = StridedSlice(%y, [0,0,0,0], [1,10,10,3], [1,1,1,2])
}

rules {
  passes(fuse_slice_with_tconv)
  unchanged()
  refused("%z: expected strides of 1, got [1, 1, 1, 2]")
}
