# SPDX-License-Identifier: Apache-2.0
# Refused: %r: may be negative, so a padding of 0 may exceed it

graph main(%x: f32[1,5,4,2]) -> %y {
  %p/paddings = const i32[4,2] [0, 0, 1, 1, 1, 0, 0, 0]
  %p/constant_values = const f32[] -5.0
  %r = Neg(%x) : f32[1,5,4,2]
  %p = PadV2(%r, %p/paddings, %p/constant_values) : f32[1,7,5,2]
  %y = MaxPool2D(%p) {padding: VALID, stride_w: 2, filter_width: 2, filter_height: 3} : f32[1,5,2,2]
}

rules {
  passes(substitute_padv2_to_pad)
  unchanged()
  refused("may be negative, so a padding of 0 may exceed it")
}
