# SPDX-License-Identifier: Apache-2.0
# Refused: %y: act is NONE, expected RELU

graph main(%x: f32[1,4,4,3]) -> %y {
  %m/rhs = const f32[3] [1.0, -2.0, 0.0]
  %y/rhs = const f32[3] [1.0, 2.0, 3.0]
  %m = Mul(%x, %m/rhs) : f32[1,4,4,3]
  %y = Add(%m, %y/rhs) : f32[1,4,4,3]
}

rules {
  passes(make_batchnorm_gamma_positive)
  unchanged()
  refused("act is NONE, expected RELU")
}
