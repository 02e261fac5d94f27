# SPDX-License-Identifier: Apache-2.0
# Refused: %q: is a quotient, which may be so large that the first product overflows

graph main(%x: f32[2,3], %y: f32[3]) -> %z {
  %q = Div(%y, %x)
  %m = Mul(%q, 4.0)
  %s = Add(%m, 1.0)
  %z = Div(%s, 100.0)
}

rules {
  passes(fuse_mul_with_add)
  unchanged()
  refused("%q: is a quotient, which may be so large that the first product overflows")
}
