# SPDX-License-Identifier: Apache-2.0
# Done: padding of known axes is cut off again, whatever the batch is.

graph main(%x: f32[?,4]) -> %y, %z {
  %a = Neg(%x)
  %b = Pad(%a, [[0, 0], [2, 1]])
  %c = Slice(%b, [0, 2], [-1, 4])
  %d = StridedSlice(%c, [0, 0], [0, 4], [1, 1]) {begin_mask: 1, end_mask: 1}
  %y = Neg(%d)
  %p = MirrorPad(%a, [[0, 0], [2, 1]])
  %q = StridedSlice(%p, [0, 2], [2147483647, 6], [1, 1])
  %z = Abs(%q)
}

rules {
  passes(remove_unnecessary_pad, remove_unnecessary_strided_slice)
  order(Neg, Neg, Abs)
}
