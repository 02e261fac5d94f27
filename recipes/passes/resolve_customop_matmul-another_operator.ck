# SPDX-License-Identifier: Apache-2.0
# Left alone: the model has no operator that this pass matches.

graph main(%x: i32[4,3], %y: i32[3,2]) -> %z {
  %z = Opaque(%x, %y) {code: "CUSTOM", custom_code: "MatMul",
    extra: {custom_options:
      array(u8, "dHJhbnNwb3NlX2EAdHJhbnNwb3NlX2IAAhkOAgECAABoaAQkAQ==")}} : i32[4,2]
}

rules {
  passes(resolve_customop_matmul)
  unchanged()
  refused("%x: is i32, expected f32")
}
