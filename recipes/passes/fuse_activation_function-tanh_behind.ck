# SPDX-License-Identifier: Apache-2.0
# Refused: %c: act is TANH, which RELU_N1_TO_1 cannot be merged with

graph main(%x: f32[1,2,2,2]) -> %y {
  %w = const f32[2,1,1,2] gaussian(0, 3)
  %a = Conv2D(%x, %w, none)
  %b = Conv2D(%x, %w, none)
  %c = Concatenation(%a, %b) {axis: 3, act: TANH}
  %y = ReluN1To1(%c)
}

rules {
  passes(fuse_activation_function)
  unchanged()
  refused("%c: act is TANH, which RELU_N1_TO_1 cannot be merged with")
}
