# SPDX-License-Identifier: Apache-2.0
# Refused: the constant has three channels, x may have one.

graph main(%x: f32[1,?,5,5]) -> %y {
  %c = const f32[1,3,1,1] [1.0, 2.0, 3.0]
  %a = Mul(%x, %c)
  %t = Transpose(%a, [0,2,3,1])
  %w = const f32[4,3,3,3] gaussian(0, 1)
  %y = Conv2D(%t, %w, none) {padding: VALID}
}

rules {
  passes(fuse_mul_to_conv_weights)
  unchanged()
  refused("may change the shape [1,?,5,5] of %x")
}
