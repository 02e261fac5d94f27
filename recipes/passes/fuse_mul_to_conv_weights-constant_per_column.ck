# SPDX-License-Identifier: Apache-2.0
# Refused: expected one number per channel, got one per column.

graph main(%x: f32[1,5,5,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 0.3)
  %c = const f32[5,1] uniform(1, 2)
  %m = Mul(%x, %c)
  %y = Conv2D(%m, %w, none) {padding: SAME}
}

rules {
  passes(fuse_mul_to_conv_weights)
  unchanged()
  refused("%c: shape is [5,1], expected [*,I|1]")
}
