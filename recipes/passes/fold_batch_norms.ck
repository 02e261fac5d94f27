# SPDX-License-Identifier: Apache-2.0
# Done: (x - mean) / sqrt(variance + epsilon) * gamma + beta is folded into the convolution.

graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %mean = const f32[4] uniform(-1, 1)
  %variance = const f32[4] uniform(0.5, 2)
  %gamma = const f32[4] uniform(0.5, 2)
  %beta = const f32[4] uniform(-1, 1)
  %a = Conv2D(%x, %w, none)
  %c = Sub(%a, %mean)
  %shifted = Add(%variance, 0.001)
  %d = Sqrt(%shifted)
  %n = Div(%c, %d)
  %g = Mul(%n, %gamma)
  %y = Add(%g, %beta)
}

rules {
  passes(fold_batch_norms)
  order(Conv2D)
}
