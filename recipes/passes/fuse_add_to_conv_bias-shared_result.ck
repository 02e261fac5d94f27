# SPDX-License-Identifier: Apache-2.0
# Refused: the sum has other users.

graph main(%x: f32[1,5,5,2]) -> %y, %z {
  %w = const f32[3,3,3,2] gaussian(0, 0.3)
  %m = Add(%x, [2.0, 0.5])
  %y = Conv2D(%m, %w, none) {padding: VALID}
  %z = Tanh(%m)
}

rules {
  passes(fuse_add_to_conv_bias)
  unchanged()
  refused("%m: is also read by Tanh %z")
}
