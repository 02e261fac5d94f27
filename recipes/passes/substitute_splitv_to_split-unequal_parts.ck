# SPDX-License-Identifier: Apache-2.0
# Refused: %a: expected parts of equal size, got the sizes [1,2]

graph main(%x: f32[2,1,3,1]) -> %b, %a {
  %a,
  %b = SplitV(%x, [1, 2], 2) {num_splits: 2}
}

rules {
  passes(substitute_splitv_to_split)
  unchanged()
  refused("expected parts of equal size, got the sizes [1,2]")
}
