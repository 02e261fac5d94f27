# SPDX-License-Identifier: Apache-2.0
# Refused: LiteRT divides by the largest number where the first divisor is 0, not by infinity.

graph main(%x: f32[2,3]) -> %z {
  %m = Div(%x, [1.0, 0.0, 2.0])
  %z = Div(3.0, %m)
}

rules {
  passes(fuse_mul_with_div)
  unchanged()
  refused("%m: is a quotient, which may be so large that the first product overflows")
}
