# SPDX-License-Identifier: Apache-2.0
# Done: TRANSPOSE_CONV with a bias; options: SAME padding, strides of 2.

graph main(%x: f32[1,4,5,3]) -> %y {
  %w = const f32[2,2,2,3] gaussian(0, 1)
  %b = const f32[2] [1.0, -2.0]
  %y = Opaque(%x, %w, %b) {
    code: "CUSTOM", custom_code: "Convolution2DTransposeBias", extra: {custom_options: array(u8, "AQAAAAIAAAACAAAA")}
  } : f32[1,8,9,2]
}

rules {
  passes(resolve_customop_transpose_conv)
  order(TransposeConv)
}
