# SPDX-License-Identifier: Apache-2.0
# Refused: the slices are along an axis of unknown size

graph main(%x: f32[?,2,6]) -> %a, %b {
  %q = Slice(%x, [0, 0, 0], [1, 2, 6])
  %k = Slice(%x, [1, 0, 0], [-1, 2, 6])
  %a = Relu(%q)
  %b = Tanh(%k)
}

rules {
  passes(join_slices)
  unchanged()
}
