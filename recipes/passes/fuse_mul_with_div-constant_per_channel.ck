# SPDX-License-Identifier: Apache-2.0
# Refused: %m/rhs: shape is [4], expected [*,1]

graph main(%x: f32[2,4]) -> %z {
  %m = Mul(%x, [1.0, 2.0, 3.0, 4.0])
  %z = Div(%m, 4.0)
}

rules {
  passes(fuse_mul_with_div)
  unchanged()
  refused("shape is [4]")
}
