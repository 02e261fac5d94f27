# SPDX-License-Identifier: Apache-2.0
# Refused: the concatenation is along another axis, so each part has all channels.

graph main(%x: f32[1,4,4,3]) -> %y {
  %w = const f32[2,3,3,3] gaussian(0, 0.3)
  %v = const f32[2,1,1,3] gaussian(0, 0.3)
  %a = Conv2D(%x, %w, none)
  %b = Conv2D(%x, %v, none)
  %c = Concatenation(%a, %b) {axis: 1}
  %y = Mul(%c, 2.0)
}

rules {
  passes(forward_batchnorm_over_concat)
  unchanged()
  refused("expected a concatenation along the last axis, got axis 1")
}
