# SPDX-License-Identifier: Apache-2.0
# Refused: act is RELU

graph main(%x: f32[2,3,4,5]) -> %z {
  %z = AveragePool2D(%x) {padding: VALID, stride_h: 1, stride_w: 1, filter_height: 3, filter_width: 4, act: RELU}
}

rules {
  passes(replace_average_pool_with_mean)
  unchanged()
}
