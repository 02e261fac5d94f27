# SPDX-License-Identifier: Apache-2.0
# Done: a stride of 2 over 8 rows needs one row of padding, after the image; SAME padding adds just that.

graph main(%x: f32[1,8,8,3]) -> %z {
  %w = const f32[4,3,3,3] gaussian(0, 0.5)
  %p = Pad(%x, [[0, 0], [0, 1], [0, 1], [0, 0]])
  %z = Conv2D(%p, %w) {padding: VALID, stride_h: 2, stride_w: 2, act: RELU}
}

rules {
  passes(fuse_pad)
  order(Conv2D)
}
