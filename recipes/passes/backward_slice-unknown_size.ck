# SPDX-License-Identifier: Apache-2.0
# Refused: %a: the slice takes part of an axis of unknown size

graph main(%x: f32[?,4]) -> %y {
  %a = Relu(%x)
  %y = Slice(%a, [0, 0], [3, 4])
}

rules {
  passes(backward_slice)
  unchanged()
  refused("%a: the slice takes part of an axis of unknown size")
}
