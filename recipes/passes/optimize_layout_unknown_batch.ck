# SPDX-License-Identifier: Apache-2.0
# Done: a channel shuffle of an unknown number of images in NCHW works in NHWC, between the convolutions.

graph main(%x: f32[?,6,6,4]) -> %y {
  %w = const f32[4,1,1,4] gaussian(0, 1)
  %b = const f32[4] gaussian(0, 1)
  %c = Conv2D(%x, %w, %b)
  %u = Transpose(%c, [0,3,1,2])
  %r = Reshape(%u, [-1,2,2,6,6])
  %p = Transpose(%r, [0,2,1,3,4])
  %q = Reshape(%p, [-1,4,6,6])
  %e = Exp(%q)
  %v = Transpose(%e, [0,2,3,1])
  %y = Conv2D(%v, %w, %b)
}

rules {
  passes(optimize_layout)
  order(Conv2D, Reshape, Transpose, Reshape, Exp, Conv2D)
}
