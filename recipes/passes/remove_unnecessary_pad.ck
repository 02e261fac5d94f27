# SPDX-License-Identifier: Apache-2.0
# Done: paddings of width 0, and paddings that a Slice removes again, are removed.

graph main(%x: f32[?,3]) -> %y {
  %a = Neg(%x)
  %b = Pad(%a, [[0, 0], [0, 0]])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_pad)
  order(Neg, Neg)
}
