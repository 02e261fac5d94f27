# SPDX-License-Identifier: Apache-2.0
# Done: square operands; only the options say that the weights need a Transpose.

graph main(%x: f32[3,3], %y: f32[3,3]) -> %z {
  %z = Opaque(%x, %y) {code: "CUSTOM", custom_code: "MatMul",
    extra: {custom_options:
      array(u8, "dHJhbnNwb3NlX2EAdHJhbnNwb3NlX2IAAhkOAgECAABoaAQkAQ==")}} : f32[3,3]
}

rules {
  passes(resolve_customop_matmul)
  order(Transpose, FullyConnected)
}
