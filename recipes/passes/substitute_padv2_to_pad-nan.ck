# SPDX-License-Identifier: Apache-2.0
# Refused: %p/constant_values: expected 0 or less, got nan

graph main(%x: f32[1,4,4,2]) -> %y {
  %r = Relu(%x)
  %p = PadV2(%r, [[0,0],[1,1],[1,1],[0,0]], [nan])
  %y = MaxPool2D(%p) {padding: VALID, filter_height: 3, filter_width: 3, stride_h: 1, stride_w: 1}
}

rules {
  passes(substitute_padv2_to_pad)
  unchanged()
  refused("%p/constant_values: expected 0 or less, got nan")
}
