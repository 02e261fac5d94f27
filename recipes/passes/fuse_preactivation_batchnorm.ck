# SPDX-License-Identifier: Apache-2.0
# Done: factors and offsets between a convolution, a RELU and a convolution are folded into one of the convolutions.

graph main(%x: f32[1,6,6,3]) -> %z {
  %w = const f32[3,3,3,3] gaussian(0, 1)
  %v = const f32[2,3,3,3] gaussian(0, 1)
  %c = Conv2D(%x, %w, [1.0, 2, 3]) {padding: VALID}
  %m = Mul(%c, [2.0, 0.5, 0.0])
  %r = Add(%m, [0.1, -0.2, 0.3]) {act: RELU}
  %z = Conv2D(%r, %v, [1.0, 2]) {act: RELU6}
}

rules {
  passes(fuse_preactivation_batchnorm)
  order(Conv2D, Relu, Conv2D)
}
