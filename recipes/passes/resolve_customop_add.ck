# SPDX-License-Identifier: Apache-2.0
# Done: TensorFlow's AddV2 becomes ADD, which broadcasts.

graph main(%x: f32[2,3], %y: f32[2,3]) -> %z {
  %z = Opaque(%x, %y) {code: "CUSTOM", custom_code: "AddV2"} : f32[2,3]
}

rules {
  passes(resolve_customop_add)
  order(Add)
}
