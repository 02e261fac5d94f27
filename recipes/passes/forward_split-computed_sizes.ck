# SPDX-License-Identifier: Apache-2.0
# Refused: %u: expected a known size along axis 1, got shape [?,?]

graph main(%x: f32[?,6], %s: i32[2]) -> %u, %v {
  %a, %b = SplitV(%x, %s, 1) {num_splits: 2}
  %u = Relu(%a)
  %v = Relu(%b)
}

rules {
  passes(forward_split)
  unchanged()
  refused("%u: expected a known size along axis 1, got shape [?,?]")
}
