# SPDX-License-Identifier: Apache-2.0
# The largest element of every window of 3 x 3.

graph main(%x: f32[1,6,6,2]) -> %y {
  %y = MaxPool2D(%x) {padding: VALID, stride_w: 1, stride_h: 1, filter_width: 3, filter_height: 3}
}
