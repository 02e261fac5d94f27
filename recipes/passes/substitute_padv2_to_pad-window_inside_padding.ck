# SPDX-License-Identifier: Apache-2.0
# Refused: %y: windows of %z may be inside the padding of axis 2

graph main(%x: f32[1,5,4,2]) -> %z {
  %t/perm = const i32[4] [0, 2, 1, 3]
  %s/perm = const i32[4] [0, 2, 1, 3]
  %p/paddings = const i32[4,2] [0, 0, 1, 1, 1, 0, 0, 0]
  %p/constant_values = const f32[] -5.0
  %y/perm = const i32[4] [0, 2, 1, 3]
  %r = Relu(%x) : f32[1,5,4,2]
  %t = Transpose(%r, %t/perm) : f32[1,4,5,2]
  %s = Transpose(%t, %s/perm) : f32[1,5,4,2]
  %p = PadV2(%s, %p/paddings, %p/constant_values) : f32[1,7,5,2]
  %y = Transpose(%p, %y/perm) : f32[1,5,7,2]
  %z = MaxPool2D(%y) {padding: VALID, filter_height: 2} : f32[1,4,7,2]
}

rules {
  passes(substitute_padv2_to_pad)
  unchanged()
  refused("windows of %z may be inside the padding of axis 2")
}
