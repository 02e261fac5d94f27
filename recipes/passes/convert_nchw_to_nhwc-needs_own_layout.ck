# SPDX-License-Identifier: Apache-2.0
# Refused: %y: MaxPool2D works only in its own layout

graph main(%x: f32[1,3,4,5]) -> %y {
  %y = MaxPool2D(%x) {padding: VALID, filter_height: 2, filter_width: 2, stride_h: 1, stride_w: 1}
}

rules {
  passes(convert_nchw_to_nhwc)
  unchanged()
  refused("MaxPool2D works only in its own layout")
}
