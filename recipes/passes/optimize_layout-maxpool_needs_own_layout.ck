# SPDX-License-Identifier: Apache-2.0
# Refused: %y: MaxPool2D works only in its own layout

graph main(%x: f32[1,3,4,5]) -> %y {
  %r = Relu(%x)
  %t = Transpose(%r, [0, 2, 3, 1])
  %y = MaxPool2D(%t) {padding: SAME, filter_height: 2, filter_width: 2, stride_h: 1, stride_w: 1}
}

rules {
  passes(optimize_layout)
  unchanged()
  refused("MaxPool2D works only in its own layout")
}
