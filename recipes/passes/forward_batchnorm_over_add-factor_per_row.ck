# SPDX-License-Identifier: Apache-2.0
# Refused: each row of the image has a factor, not each channel.

graph main(%x: f32[1,3,3,3]) -> %y {
  %w = const f32[3,3,3,3] gaussian(0, 0.3)
  %v = const f32[3,1,1,3] gaussian(0, 0.3)
  %a = Conv2D(%x, %w, none)
  %b = Conv2D(%x, %v, none)
  %c = Add(%a, %b)
  %k = const f32[3,1] [1.0, 2.0, 3.0]
  %y = Mul(%c, %k)
}

rules {
  passes(forward_batchnorm_over_add)
  unchanged()
  refused("%c: expected a constant with one number per channel, got shape [3,1]")
}
