# SPDX-License-Identifier: Apache-2.0
# Refused: %w: shape is [6,3,3,2], expected [O,_,_,I] with I = 4

graph main(%x: f32[1,4,3,3]) -> %y {
  %c = const f32[1,4,1,1] [1.0,2.0,3.0,4.0]
  %a = Mul(%x, %c)
  %t = Transpose(%a, [0,2,3,1])
  %w = const f32[6,3,3,2] gaussian(0, 1)
  %y = Conv2D(%t, %w, none) {padding: SAME}
}

rules {
  passes(fuse_mul_to_conv_weights)
  unchanged()
  refused("%w: shape is [6,3,3,2], expected [O,_,_,I] with I = 4")
}
