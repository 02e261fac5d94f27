# SPDX-License-Identifier: Apache-2.0
# Done: the rows and columns change places as before, between the shuffle and the join.

graph main(%x: f32[1,3,3,4]) -> %y, %z {
  %v = const f32[8,1,1,4] gaussian(0, 1)
  %w = const f32[5,1,1,12] gaussian(0, 1)
  %u = const f32[5,1,1,4] gaussian(0, 1)
  %a = Conv2D(%x, %v)
  %r = Reshape(%x, [1, 3, 3, 2, 2])
  %t = Transpose(%r, [0, 1, 2, 4, 3])
  %s = Reshape(%t, [1, 3, 3, 4])
  %p = Transpose(%s, [0, 2, 1, 3])
  %c = Concatenation(%a, %p) {axis: 3}
  %y = Conv2D(%c, %w)
  %z = Conv2D(%s, %u)
}

rules {
  passes(order_channels)
  order(Conv2D, Transpose, Concatenation, Conv2D, Conv2D)
}
