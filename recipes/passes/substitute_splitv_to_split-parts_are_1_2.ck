# SPDX-License-Identifier: Apache-2.0
# Refused: %a: the parts are [1, 2], equal ones are wanted

graph main(%x: f32[2,1,3,1]) -> %b, %a {
  %a,
  %b = SplitV(%x, [1, 2], 2) {num_splits: 2}
}

rules {
  passes(substitute_splitv_to_split)
  unchanged()
  refused("the parts are [1, 2], equal ones are wanted")
}
