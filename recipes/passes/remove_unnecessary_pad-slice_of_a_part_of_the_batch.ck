# SPDX-License-Identifier: Apache-2.0
# The slice remains, because it leaves out the first row; the padding is removed.

graph main(%x: f32[?,4]) -> %y {
  %a = Neg(%x)
  %b = Pad(%a, [[0, 0], [2, 1]])
  %c = Slice(%b, [1, 2], [-1, 4])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_pad)
  order(Neg, Slice, Neg)
}
