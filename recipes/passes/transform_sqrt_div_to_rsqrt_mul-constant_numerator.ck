# SPDX-License-Identifier: Apache-2.0
# Refused: %z/lhs: is constant

graph main(%x: f32[2,1,3,1]) -> %z {
  %p = Square(%x)
  %e = Add(%p, 1.0)
  %s = Sqrt(%e)
  %z = Div(2.0, %s) {act: RELU}
}

rules {
  passes(transform_sqrt_div_to_rsqrt_mul)
  unchanged()
  refused("is constant")
}
