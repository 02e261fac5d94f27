# SPDX-License-Identifier: Apache-2.0
# Refused: the Reshape does not directly follow a convolution.

graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %a = Conv2D(%x, %w, none)
  %e = Relu(%a)
  %b = Reshape(%e, [36,4])
  %y = Mul(%b, 2.0)
}

rules {
  passes(forward_batchnorm)
  unchanged()
  refused("comes from Relu")
}
