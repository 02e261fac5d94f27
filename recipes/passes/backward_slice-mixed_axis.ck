# SPDX-License-Identifier: Apache-2.0
# Refused: %a: Softmax cannot compute only some indices of axis 1

graph main(%x: f32[4,5]) -> %y {
  %a = Softmax(%x) {beta: 1.0}
  %y = Slice(%a, [0, 1], [4, 2])
}

rules {
  passes(backward_slice)
  unchanged()
  refused("%a: Softmax cannot compute only some indices of axis 1")
}
