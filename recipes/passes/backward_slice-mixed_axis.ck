# SPDX-License-Identifier: Apache-2.0
# Refused: %a: Softmax does not compute each index of axis 1 alone

graph main(%x: f32[4,5]) -> %y {
  %a = Softmax(%x) {beta: 1.0}
  %y = Slice(%a, [0, 1], [4, 2])
}

rules {
  passes(backward_slice)
  unchanged()
  refused("%a: Softmax does not compute each index of axis 1 alone")
}
