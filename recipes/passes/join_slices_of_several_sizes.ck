# SPDX-License-Identifier: Apache-2.0
# Done: the slices have one row and three.

graph main(%x: f32[4,2]) -> %y, %z {
  %a = Slice(%x, [0, 0], [1, 2])
  %b = Slice(%x, [1, 0], [3, 2])
  %y = Relu(%a)
  %z = Abs(%b)
}

rules {
  passes(join_slices)
  order(SplitV, Relu, Abs)
}
