# SPDX-License-Identifier: Apache-2.0
# Refused: %c: keeps some of the border of %b

graph main(%x: f32[3,4]) -> %y {
  %a = Neg(%x)
  %b = Pad(%a, [[1, 2], [2, 1]])
  %c = Slice(%b, [0, 2], [4, 4])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_pad)
  unchanged()
  refused("%c: keeps some of the border of %b")
}
