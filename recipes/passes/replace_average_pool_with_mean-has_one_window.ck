# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected one window that holds all of [2,3,4,5], got windows of 3x3 and a result of [2,1,1,5]

graph main(%x: f32[2,3,4,5]) -> %z {
  %z = AveragePool2D(%x) {padding: SAME, stride_h: 3, stride_w: 4, filter_height: 3, filter_width: 3}
}

rules {
  passes(replace_average_pool_with_mean)
  unchanged()
}
