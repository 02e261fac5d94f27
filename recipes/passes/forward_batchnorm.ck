# SPDX-License-Identifier: Apache-2.0
# Done: the factor of each channel moves before the Reshape, where the convolution can fold it.

graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %c = const f32[4] uniform(0.5, 2)
  %a = Conv2D(%x, %w, none)
  %b = Reshape(%a, [36,4])
  %y = Mul(%b, %c) {act: RELU}
}

rules {
  passes(forward_batchnorm)
  order(Conv2D, Mul, Reshape)
}
