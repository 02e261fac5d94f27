# SPDX-License-Identifier: Apache-2.0
# Done: SPLIT_V into equal parts  ==  SPLIT.

graph main(%x: f32[2,1,3,1]) -> %b, %a {
  %a,
  %b = SplitV(%x, [1, 1], 0) {num_splits: 2}
}

rules {
  passes(substitute_splitv_to_split)
  order(Split)
}
