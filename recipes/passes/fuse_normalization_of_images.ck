# SPDX-License-Identifier: Apache-2.0
# Done: the normalization of an NCHW image before a Transpose is folded into the first convolution.

graph main(%x: f32[?,3,8,8]) -> %y {
  %mean = const f32[1,3,1,1] gaussian(0, 1)
  %std = const f32[3,1,1] uniform(0.5, 2)
  %w = const f32[4,3,3,3] gaussian(0, 1)
  %a = Sub(%x, %mean)
  %b = Div(%a, %std)
  %t = Transpose(%b, [0,2,3,1])
  %y = Conv2D(%t, %w, [1.0, 2, 3, 4]) {padding: VALID, act: RELU}
}

rules {
  passes(fuse_mul_to_conv_weights, fuse_add_to_conv_bias)
  order(Transpose, Conv2D)
}
