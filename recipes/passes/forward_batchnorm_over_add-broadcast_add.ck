# SPDX-License-Identifier: Apache-2.0
# Refused: one operand of the sum is broadcast.

graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %a = Conv2D(%x, %w, none)
  %k = const f32[4,3] gaussian(0, 1)
  %m = Mean(%x, [1,2])
  %f = FullyConnected(%m, %k)
  %b = Add(%a, %f)
  %y = Mul(%b, [1.0, -1.0, 2.0, 0.5])
}

rules {
  passes(forward_batchnorm_over_add)
  unchanged()
  refused("expected a sum of two values of its shape, got [1,6,6,4] and [1,4]")
}
