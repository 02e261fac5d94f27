# SPDX-License-Identifier: Apache-2.0
# Refused: the product of the constants, 1e-60, would be 0 in float32; x may be as large as 1e38.

graph main(%x: f32[2,4]) -> %z {
  %m = Mul(%x, 1e-30)
  %z = Div(%m, 1e30)
}

rules {
  passes(fuse_mul_with_div)
  unchanged()
  refused("%z: c would be too small for its dtype")
}
