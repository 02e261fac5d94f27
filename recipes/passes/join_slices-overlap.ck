# SPDX-License-Identifier: Apache-2.0
# Refused: %x: the slices do not take each of the 4 indices of axis 1 exactly once

graph main(%x: f32[3,4]) -> %a, %b {
  %q = Slice(%x, [0, 0], [3, 2])
  %k = Slice(%x, [0, 1], [3, 3])
  %a = Relu(%q)
  %b = Tanh(%k)
}

rules {
  passes(join_slices)
  unchanged()
  refused("%x: the slices do not take each of the 4 indices of axis 1 exactly once")
}
