# SPDX-License-Identifier: Apache-2.0
# Refused: %m: act is RELU, expected NONE

graph main(%x: f32[2,4,5,3]) -> %z {
  %m/rhs = const f32[3] [2.0, 0.5, 0.0]
  %z/lhs = const f32[3] [0.1, -0.2, 0.3]
  %m = Mul(%x, %m/rhs) {act: RELU} : f32[2,4,5,3]
  %z = Add(%z/lhs, %m) : f32[2,4,5,3]
}

rules {
  passes(replace_cw_mul_add_with_depthwise_conv)
  unchanged()
  refused("%m: act is RELU, expected NONE")
}
