# SPDX-License-Identifier: Apache-2.0
# Refused: with x = 0, LiteRT multiplies the largest number, not infinity.

graph main(%x: f32[2,4]) -> %z {
  %m = Div(2.0, %x)
  %z = Mul(%m, 0.5)
}

rules {
  passes(fuse_mul_with_div)
  unchanged()
  refused("%x: is not constant")
}
