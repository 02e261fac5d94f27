# SPDX-License-Identifier: Apache-2.0
# Refused: expected one factor per channel, got one per row of the reshaped data.

graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %a = Conv2D(%x, %w, none)
  %r = const f32[36,1] uniform(0.5, 2)
  %b = Reshape(%a, [36,4])
  %y = Mul(%b, %r)
}

rules {
  passes(forward_batchnorm)
  unchanged()
  refused("expected a constant with one number per channel, got shape [36,1]")
}
