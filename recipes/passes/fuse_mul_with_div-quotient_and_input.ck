# SPDX-License-Identifier: Apache-2.0
# Refused: %q: is a quotient, which may be so large that the first product overflows

graph main(%x: f32[2,3], %y: f32[2,3]) -> %z {
  %q = Div(2.0, %x)
  %s = Add(%y, %q)
  %m = Mul(%s, 3.0)
  %z = Mul(%m, -0.5)
}

rules {
  passes(fuse_mul_with_div)
  unchanged()
  refused("%q: is a quotient, which may be so large that the first product overflows")
}
