# SPDX-License-Identifier: Apache-2.0
# Done: NCHW arithmetic around an NHWC convolution works with channels last.

graph main(%x: f32[1,3,6,5]) -> %y {
  %t = Transpose(%x, [0,2,3,1])
  %w = const f32[3,3,3,3] gaussian(0, 0.2)
  %c = Conv2D(%t, %w, none) {padding: SAME}
  %n = Transpose(%c, [0,3,1,2])
  %m = Mul(%n, [[[[2.0]], [[3.0]], [[4.0]]]])
  %y = Add(%m, %x) {act: RELU}
}

rules {
  passes(convert_nchw_to_nhwc)
  order(Transpose, Conv2D, Mul, Add, Transpose)
}
