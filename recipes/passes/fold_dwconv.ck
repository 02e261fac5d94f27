# SPDX-License-Identifier: Apache-2.0
# Done: DEPTHWISE_CONV_2D of constants becomes a constant.

graph main(%x: f32[1,3]) -> %y {
  %r/input = const f32[1,1,1,3] [1.0, 2.0, 3.0]
  %r/filter = const f32[1,1,1,3] [1.0, 2.0, 3.0]
  %r/bias = const f32[3] [1.0, 1.0, 1.0]
  %r = DepthwiseConv2D(%r/input, %r/filter, %r/bias) {act: RELU6} : f32[1,1,1,3]
  %y = Add(%x, %r) : f32[1,1,1,3]
}

rules {
  passes(fold_dwconv)
  order(Add)
}
