# SPDX-License-Identifier: Apache-2.0
# Done: both convolutions get the factors, one of them the offsets.

graph main(%x: f32[1,4,4,3]) -> %y {
  %w = const f32[3,3,3,3] gaussian(0, 0.3)
  %v = const f32[3,1,1,3] gaussian(0, 0.3)
  %a = Conv2D(%x, %w, none)
  %b = Conv2D(%x, %v, none)
  %c = Add(%a, %b)
  %m = Mul(%c, [2.0, 0.5, -1.0])
  %y = Add(%m, [1.0, 2.0, 3.0]) {act: RELU}
}

rules {
  passes(forward_batchnorm_over_add, fuse_mul_with_conv, fuse_add_with_conv)
  order(Conv2D, Conv2D, Add)
}
