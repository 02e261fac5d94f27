# SPDX-License-Identifier: Apache-2.0
# Done: (conv(x, w) + b) + shift  ==  conv(x, w) + (b + shift).

graph main(%x: f32[1,5,4,2]) -> %z {
  %w = const f32[3,2,3,2] gaussian(0, 1)
  %y = Conv2D(%x, %w)
  %z = Add(%y, -0.5) {act: RELU}
}

rules {
  passes(fuse_add_with_conv)
  order(Conv2D)
}
