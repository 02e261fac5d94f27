# SPDX-License-Identifier: Apache-2.0
# Refused: %y: Reshape works only in its own layout

graph main(%x: f32[1,4,6,8]) -> %y, %z {
  %n = MaxPool2D(%x) {padding: SAME, filter_height: 2, filter_width: 2, stride_h: 1, stride_w: 1}
  %m = Transpose(%n, [0, 3, 1, 2])
  %a = Slice(%m, [0, 0, 0, 0], [1, 2, 4, 6])
  %b = Slice(%m, [0, 2, 0, 0], [1, 2, 4, 6])
  %y = Reshape(%a, [48])
  %z = Reshape(%b, [48])
}

rules {
  passes(optimize_layout)
  unchanged()
  refused("Reshape works only in its own layout")
}
