# SPDX-License-Identifier: Apache-2.0
# Refused: %p: is read by AveragePool2D %y, expected MaxPool2D

graph main(%x: f32[1,5,4,2]) -> %y {
  %p/paddings = const i32[4,2] [0, 0, 1, 1, 1, 0, 0, 0]
  %p/constant_values = const f32[] -5.0
  %r = Relu(%x) : f32[1,5,4,2]
  %p = PadV2(%r, %p/paddings, %p/constant_values) : f32[1,7,5,2]
  %y = AveragePool2D(%p) {padding: VALID, filter_width: 2, filter_height: 3} : f32[1,5,4,2]
}

rules {
  passes(substitute_padv2_to_pad)
  unchanged()
  refused("is read by AveragePool2D %y, expected MaxPool2D")
}
