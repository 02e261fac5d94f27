# SPDX-License-Identifier: Apache-2.0
# Refused: a TRANSPOSE_CONV states the size of its result.

graph main(%x: f32[1,?,?,3]) -> %y {
  %w = const f32[2,2,2,3] gaussian(0, 1)
  %b = const f32[2] [1.0, -2.0]
  %y = Opaque(%x, %w, %b) {
    code: "CUSTOM", custom_code: "Convolution2DTransposeBias", extra: {custom_options: array(u8, "AQAAAAIAAAACAAAA")}
  } : f32[1,?,?,2]
}

rules {
  passes(resolve_customop_transpose_conv)
  unchanged()
  refused("%y: %x has shape [1,?,?,3], expected a static shape")
}
