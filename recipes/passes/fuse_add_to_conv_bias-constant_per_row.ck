# SPDX-License-Identifier: Apache-2.0
# Refused: %c: expected one number per channel after the Transpose, got shape [3]

graph main(%x: f32[1,3,5,3]) -> %y {
  %c = const f32[3] [1.0, 2, 3]
  %w = const f32[4,3,3,3] gaussian(0, 1)
  %a = Add(%x, %c)
  %t = Transpose(%a, [0,2,3,1])
  %y = Conv2D(%t, %w, [1.0, 2, 3, 4]) {padding: VALID}
}

rules {
  passes(fuse_add_to_conv_bias)
  unchanged()
  refused("expected one number per channel after the Transpose, got shape [3]")
}
