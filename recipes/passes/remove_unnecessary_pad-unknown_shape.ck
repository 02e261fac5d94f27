# SPDX-License-Identifier: Apache-2.0
# Refused: with fewer than 3 rows, the slice takes a part of the border behind them.

graph main(%x: f32[?,4]) -> %y {
  %a = Neg(%x)
  %b = Pad(%a, [[1, 2], [2, 1]])
  %c = Slice(%b, [1, 2], [3, 4])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_pad)
  unchanged()
  refused("%c: may keep some of the border of %b")
}
