# SPDX-License-Identifier: Apache-2.0
# Done: tconv(x, w, VALID)[:, 1:-1, 1:-1, :]  ==  tconv(x, w, SAME).

graph main(%x: f32[1,4,4,2]) -> %z {
  %w = const f32[3,4,4,2] gaussian(0, 1)
  %y = TransposeConv([1,10,10,3], %w, %x) {padding: VALID, stride_h: 2, stride_w: 2}
  %z = StridedSlice(%y, [0,1,1,0], [0,-1,-1,0], [1,1,1,1]) {begin_mask: 9, end_mask: 9}
}

rules {
  passes(fuse_slice_with_tconv)
  order(TransposeConv)
}
