# SPDX-License-Identifier: Apache-2.0
# Refused: two divided by the root is not the reciprocal.

graph main(%x: f32[2,3]) -> %y {
  %r = Sqrt(%x)
  %y = Div(2.0, %r)
}

rules {
  passes(fuse_rsqrt)
  unchanged()
  refused("%y/lhs: the picture wants the constant 1.0")
}
