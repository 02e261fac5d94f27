# SPDX-License-Identifier: Apache-2.0
# Refused: the product has other users.

graph main(%x: f32[1,5,5,2]) -> %y, %z {
  %w = const f32[3,3,3,2] gaussian(0, 0.3)
  %m = Mul(%x, [2.0, 0.5])
  %y = Conv2D(%m, %w, none) {padding: SAME}
  %z = Tanh(%m)
}

rules {
  passes(fuse_mul_to_conv_weights)
  unchanged()
  refused("%m: is also read by Tanh %z")
}
