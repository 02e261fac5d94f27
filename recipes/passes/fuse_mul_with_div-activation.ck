# SPDX-License-Identifier: Apache-2.0
# Refused: %m: act is RELU, expected NONE

graph main(%x: f32[2,4]) -> %z {
  %m = Mul(%x, 2.0) {act: RELU}
  %z = Div(%m, 4.0)
}

rules {
  passes(fuse_mul_with_div)
  unchanged()
  refused("%m: act is RELU")
}
