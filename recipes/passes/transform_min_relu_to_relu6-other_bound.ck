# SPDX-License-Identifier: Apache-2.0
# Refused: the bound is 5, not 6.

graph main(%x: f32[2,3]) -> %y {
  %m = Minimum(%x, 5.0)
  %y = Relu(%m)
}

rules {
  passes(transform_min_relu_to_relu6)
  unchanged()
  refused("%m/rhs: expected the constant 6.0")
}
