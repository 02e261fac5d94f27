# SPDX-License-Identifier: Apache-2.0
# Refused: %m/rhs: shape is [1,5,1], expected [*,C|1] with C = 3

graph main(%x: f32[2,4,5,3]) -> %z {
  %m/rhs = const f32[1,5,1] [2.0, 1.0, 0.5, 1.0, 1.0]
  %z/lhs = const f32[3] [0.1, -0.2, 0.3]
  %m = Mul(%x, %m/rhs) : f32[2,4,5,3]
  %z = Add(%z/lhs, %m) : f32[2,4,5,3]
}

rules {
  passes(replace_cw_mul_add_with_depthwise_conv)
  unchanged()
  refused("expected [*,C|1] with C = 3")
}
