# SPDX-License-Identifier: Apache-2.0
# Left alone: the operands and results of a convolution already have channels last.

graph main(%x: f32[1,6,5,3]) -> %y {
  %r = Relu(%x)
  %w = const f32[3,3,3,3] gaussian(0, 0.2)
  %c = Conv2D(%r, %w, none) {padding: SAME}
  %m = Mul(%c, [2.0, 3.0, 4.0])
  %y = Add(%m, %x)
}

rules {
  passes(convert_nchw_to_nhwc)
  unchanged()
}
