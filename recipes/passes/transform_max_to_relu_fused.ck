# SPDX-License-Identifier: Apache-2.0
# Done: the clamp to [-1, 1] becomes RELU_N1_TO_1, and the convolution fuses it.

graph main(%x: f32[1,4,4,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 1)
  %c = Conv2D(%x, %w) {padding: VALID}
  %m = Maximum(%c, -1.0)
  %y = Minimum(%m, 1.0)
}

rules {
  passes(transform_max_to_relu, fuse_activation_function)
  order(Conv2D)
}
