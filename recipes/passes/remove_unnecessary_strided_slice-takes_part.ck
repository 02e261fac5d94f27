# SPDX-License-Identifier: Apache-2.0
# Refused: %b: does not take all of axis 1

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %b = StridedSlice(%a, [0, 1], [2, 3], [1, 1]) {}
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_strided_slice)
  unchanged()
  refused("does not take all of axis 1")
}
