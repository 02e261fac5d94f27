# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is an output of the graph, the picture would lose it

graph main(%x: f32[1,4,4,2]) -> %z, %y {
  %w = const f32[3,4,4,2] gaussian(0, 1)
  %b = const f32[3] [0.5, -1.0, 2.0]
  %y = TransposeConv([1,10,10,3], %w, %x, %b) {padding: VALID, stride_h: 2, stride_w: 2}
  %z = Slice(%y, [0,1,1,0], [1,8,8,3])
}

rules {
  passes(fuse_slice_with_tconv)
  unchanged()
  refused("%y: is an output of the graph")
}
