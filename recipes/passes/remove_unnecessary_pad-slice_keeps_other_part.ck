# SPDX-License-Identifier: Apache-2.0
# Refused: %c: does not undo the padding of %b

graph main(%x: f32[3,4]) -> %y {
  %a = Neg(%x)
  %b = Pad(%a, [[1, 2], [2, 1]])
  %c = StridedSlice(%b, [1, 2], [4, 6], [1, 2])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_pad)
  unchanged()
  refused("does not undo the padding of %b")
}
