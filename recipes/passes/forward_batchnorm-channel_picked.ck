# SPDX-License-Identifier: Apache-2.0
# Refused: %s: reverses the channels, drops them, or has unknown strides or an unknown rank

graph main(%x: f32[1,5,4,4]) -> %y {
  %w = const f32[4,1,1,4] gaussian(0, 1)
  %c = Conv2D(%x, %w, none) {padding: SAME}
  %s = StridedSlice(%c, [0,0,0,2], [1,5,4,3], [1,1,1,1]) {shrink_axis_mask: 8}
  %y = Mul(%s, [1.0,2.0,3.0,4.0])
}

rules {
  passes(forward_batchnorm)
  unchanged()
  refused("%s: reverses the channels, drops them, or has unknown strides or an unknown rank")
}
