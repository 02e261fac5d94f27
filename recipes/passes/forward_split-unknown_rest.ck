# SPDX-License-Identifier: Apache-2.0
# Refused: %v: expected a known size along axis 0, got shape [?,6]

graph main(%x: f32[?,6]) -> %u, %v {
  %a, %b = SplitV(%x, [2, -1], 0) {num_splits: 2}
  %u = Relu(%a)
  %v = Relu(%b)
}

rules {
  passes(forward_split)
  unchanged()
  refused("%v: expected a known size along axis 0, got shape [?,6]")
}
