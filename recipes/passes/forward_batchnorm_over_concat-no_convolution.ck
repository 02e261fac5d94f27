# SPDX-License-Identifier: Apache-2.0
# Refused: one part is not the result of a convolution.

graph main(%x: f32[1,4,4,3]) -> %y {
  %w = const f32[2,3,3,3] gaussian(0, 0.3)
  %v = const f32[3,1,1,3] gaussian(0, 0.3)
  %s = const f32[5] uniform(0.5, 2)
  %a = Conv2D(%x, %w, none)
  %e = Conv2D(%x, %v, none)
  %b = Tanh(%e)
  %c = Concatenation(%a, %b) {axis: -1}
  %y = Mul(%c, %s) {act: RELU}
}

rules {
  passes(forward_batchnorm_over_concat)
  unchanged()
  refused("comes from Tanh")
}
