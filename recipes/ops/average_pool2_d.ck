# SPDX-License-Identifier: Apache-2.0
# Average pooling over 2 x 2 windows; SAME padding is not counted in the mean.

graph main(%x: f32[1,5,5,3]) -> %y {
  %y = AveragePool2D(%x) {padding: SAME, stride_w: 2, stride_h: 2, filter_width: 2, filter_height:
      2}
}
