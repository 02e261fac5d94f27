# SPDX-License-Identifier: Apache-2.0
# Refused: %z has no elements, and no runtime takes a filter without output channels

graph main(%x: f32[1,4,4,2]) -> %z {
  %w = const f32[3,4,4,2] gaussian(0, 1)
  %y = TransposeConv([1,10,10,3], %w, %x) {padding: VALID, stride_h: 2, stride_w: 2}
  %z = Slice(%y, [0,0,0,1], [1,10,10,0])
}

rules {
  passes(fuse_slice_with_tconv)
  unchanged()
  refused("%z: expected elements, got shape [1,10,10,0]")
}
