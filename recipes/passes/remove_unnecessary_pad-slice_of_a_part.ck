# SPDX-License-Identifier: Apache-2.0
# Done: the Slice takes a part of the padded value, without its padding, so it can read x.

graph main(%x: f32[3,4]) -> %y {
  %a = Neg(%x)
  %b = Pad(%a, [[1, 2], [2, 1]])
  %c = Slice(%b, [1, 3], [3, 2])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_pad)
  order(Neg, Slice, Neg)
}
