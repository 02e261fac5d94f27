# SPDX-License-Identifier: Apache-2.0
# Done: slice(tconv(x, w, VALID or SAME))  ==  tconv(x, w', the padding that omits the same elements).

graph main(%x: f32[1,4,4,2]) -> %z {
  %w = const f32[3,4,4,2] gaussian(0, 1)
  %y = TransposeConv([1,10,10,3], %w, %x) {padding: VALID, stride_h: 2, stride_w: 2}
  %z = Slice(%y, [0,1,1,0], [1,8,8,3])
}

rules {
  passes(fuse_slice_with_tconv)
  order(TransposeConv)
}
