# SPDX-License-Identifier: Apache-2.0
# Done: average_pool of the whole image  ==  mean over height and width.

graph main(%x: f32[2,3,4,5]) -> %z {
  %z = AveragePool2D(%x) {padding: VALID, stride_h: 1, stride_w: 1, filter_height: 3, filter_width: 4}
}

rules {
  passes(replace_average_pool_with_mean)
  order(Mean)
}
