# SPDX-License-Identifier: Apache-2.0
# Done: slices along a known axis are one SPLIT; the number of images is unknown.

graph main(%x: f32[?,2,6]) -> %a, %b {
  %q = StridedSlice(%x, [0, 0, 0], [0, 0, 3], [1, 1, 1]) {begin_mask: 3, end_mask: 3}
  %k = Slice(%x, [0, 0, 3], [-1, 2, 3])
  %a = Relu(%q)
  %b = Tanh(%k)
}

rules {
  passes(join_slices)
  order(Split, Relu, Tanh)
}
