# SPDX-License-Identifier: Apache-2.0
# Refused: no linear operator computes an operand of the sum, so none can absorb the offset.

graph main(%a: f32[1,4,4,3], %b: f32[1,4,4,3]) -> %y {
  %c = Add(%a, %b)
  %y = Add(%c, [1.0, 2.0, 3.0])
}

rules {
  passes(forward_batchnorm_over_add)
  unchanged()
  refused("%a: comes from an input, expected a convolution or fully connected layer")
}
