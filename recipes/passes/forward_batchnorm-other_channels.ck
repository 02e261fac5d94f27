# SPDX-License-Identifier: Apache-2.0
# Refused: the Reshape leaves no channels to multiply.

graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %a = Conv2D(%x, %w, none)
  %b = Reshape(%a, [18,2,4,1])
  %y = Mul(%b, 2.0)
}

rules {
  passes(forward_batchnorm)
  unchanged()
  refused("other channels")
}
