# SPDX-License-Identifier: Apache-2.0
# Refused: the slice has the size of x, but begins in the border.

graph main(%x: f32[3,4]) -> %y {
  %a = Neg(%x)
  %b = Pad(%a, [[1, 2], [2, 1]])
  %c = StridedSlice(%b, [0, 2], [3, 6], [1, 1])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_pad)
  unchanged()
  refused("%c: does not undo the padding of %b")
}
