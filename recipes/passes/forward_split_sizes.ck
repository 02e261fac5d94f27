# SPDX-License-Identifier: Apache-2.0
# Done: the parts have different sizes.

graph main(%x: f32[2,5,24]) -> %z {
  %a, %b = SplitV(%x, [16, 8], 2) {num_splits: 2}
  %ha = Reshape(%a, [2, 5, 4, 4])
  %hb = Reshape(%b, [2, 5, 2, 4])
  %z = Concatenation(%hb, %ha) {axis: 2}
}

rules {
  passes(forward_split)
  order(Reshape, SplitV, Concatenation)
}
