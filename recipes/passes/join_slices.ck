# SPDX-License-Identifier: Apache-2.0
# Done: slices that are all of %x are one UNPACK; one of them keeps its axis and gets a Reshape.

graph main(%x: f32[3,2,4]) -> %a, %b, %c {
  %q = StridedSlice(%x, [0, 0, 0], [1, 2, 4], [1, 1, 1]) {shrink_axis_mask: 1}
  %k = StridedSlice(%x, [1, 0, 0], [2, 2, 4], [1, 1, 1]) {shrink_axis_mask: 1}
  %v = Slice(%x, [2, 0, 0], [1, 2, 4])
  %a = Relu(%q)
  %b = Tanh(%k)
  %c = Abs(%v)
}

rules {
  passes(join_slices)
  order(Unpack, Reshape, Relu, Tanh, Abs)
}
