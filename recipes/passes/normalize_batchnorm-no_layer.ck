# SPDX-License-Identifier: Apache-2.0
# Refused: no convolution or fully connected layer before it could fold the result.

graph main(%x: f32[2,4]) -> %y {
  %a = Tanh(%x)
  %y = Sub(%a, [1.0, 2.0, 3.0, 4.0])
}

rules {
  passes(normalize_batchnorm)
  unchanged()
  refused("comes from Tanh")
}
