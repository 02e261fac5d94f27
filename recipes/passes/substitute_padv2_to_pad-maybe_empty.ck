# SPDX-License-Identifier: Apache-2.0
# Refused: %y: windows of %z may be inside the padding of axis 1

graph main(%a: f32[1,?,4,2]) -> %z {
  %x = Relu(%a)
  %y = PadV2(%x, [[0, 0], [1, 1], [0, 0], [0, 0]], -5.0)
  %z = MaxPool2D(%y) {padding: VALID, filter_height: 2}
}

rules {
  passes(substitute_padv2_to_pad)
  unchanged()
  refused("%y: windows of %z may be inside the padding of axis 1")
}
