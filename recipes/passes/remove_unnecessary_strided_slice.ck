# SPDX-License-Identifier: Apache-2.0
# Done: x[:, 0:n, :]  ==  x, with masks, offsets and negative ends.

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = StridedSlice(%a, [0], [2], [1]) {}
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_strided_slice)
  order(Neg, Neg)
}
