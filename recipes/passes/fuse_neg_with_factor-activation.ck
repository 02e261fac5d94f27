# SPDX-License-Identifier: Apache-2.0
# Unchanged: a concatenation with an activation does more than move elements.

graph main(%a: f32[2,3], %b: f32[2,3], %s: f32[6]) -> %y {
  %n = Neg(%a)
  %c = Concatenation(%n, %b) {axis: 1, act: RELU}
  %y = Mul(%c, %s)
}

rules {
  passes(fuse_neg_with_factor)
  unchanged()
}
