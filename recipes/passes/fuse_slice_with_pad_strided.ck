# SPDX-License-Identifier: Apache-2.0
# Done: the windows at the beginning and at the end are dropped, of a convolution with strides.

graph main(%x: f32[1,1,9,3]) -> %y {
  %w = const f32[4,1,3,3] gaussian(0, 1)
  %b = const f32[4] gaussian(0, 1)
  %p = Pad(%x, [[0,0],[0,0],[5,4],[0,0]])
  %c = Conv2D(%p, %w, %b) {padding: VALID, dilation_w: 2, act: RELU, stride_w: 2}
  %s = StridedSlice(%c, [0,0,1,0], [1,1,-1,4], [1,1,1,1]) {begin_mask: 9}
  %y = Exp(%s)
}

rules {
  passes(fuse_slice_with_pad)
  order(Pad, Conv2D, Exp)
}
