# SPDX-License-Identifier: Apache-2.0
# Refused: the numerator is 2, not 1.

graph main(%x: f32[2,3]) -> %y {
  %r = Sqrt(%x)
  %y = Div(2.0, %r)
}

rules {
  passes(fuse_rsqrt)
  unchanged()
  refused("%y/lhs: expected the constant 1.0")
}
