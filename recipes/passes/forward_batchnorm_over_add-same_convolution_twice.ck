# SPDX-License-Identifier: Apache-2.0
# Refused: the same convolution is both operands of the sum.

graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %a = Conv2D(%x, %w, none)
  %b = Add(%a, %a)
  %y = Mul(%b, [1.0, -1.0, 2.0, 0.5])
}

rules {
  passes(forward_batchnorm_over_add)
  unchanged()
  refused("has other users, or is an output of the graph")
}
