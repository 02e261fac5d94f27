# SPDX-License-Identifier: Apache-2.0
# Refused: %a: what the slice leaves out of an axis of unknown size is not known

graph main(%x: f32[?,4]) -> %y {
  %a = Relu(%x)
  %y = Slice(%a, [0, 0], [3, 4])
}

rules {
  passes(backward_slice)
  unchanged()
  refused("%a: what the slice leaves out of an axis of unknown size is not known")
}
