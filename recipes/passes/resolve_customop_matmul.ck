# SPDX-License-Identifier: Apache-2.0
# Done: TensorFlow's MatMul becomes FULLY_CONNECTED with the transposed second operand as weights.

graph main(%x: f32[4,3], %y: f32[3,2]) -> %z {
  %z = Opaque(%x, %y) {code: "CUSTOM", custom_code: "MatMul",
    extra: {custom_options:
      array(u8, "dHJhbnNwb3NlX2EAdHJhbnNwb3NlX2IAAhkOAgECAABoaAQkAQ==")}} : f32[4,2]
}

rules {
  passes(resolve_customop_matmul)
  order(Transpose, FullyConnected)
}
