# SPDX-License-Identifier: Apache-2.0
# Done: (conv(x, w) + b) * scale  ==  conv(x, w * scale) + b * scale.

graph main(%x: f32[1,5,4,2]) -> %z {
  %w = const f32[3,2,3,2] gaussian(0, 1)
  %y = Conv2D(%x, %w)
  %z = Mul(%y, 0.5) {act: RELU}
}

rules {
  passes(fuse_mul_with_conv)
  order(Conv2D)
}
