# SPDX-License-Identifier: Apache-2.0
# Done: one SPLIT and one RESHAPE are not more operators than two slices.

graph main(%x: f32[2,4]) -> %y, %z {
  %a = StridedSlice(%x, [0, 0], [1, 4], [1, 1]) {shrink_axis_mask: 1}
  %b = Slice(%x, [1, 0], [1, 4])
  %y = Relu(%a)
  %z = Relu(%b)
}

rules {
  passes(join_slices)
  ops(StridedSlice: 0, Slice: 0)
  total(4)
}
