# SPDX-License-Identifier: Apache-2.0
# Refused: %x: is i32, expected f32

graph main(%x: i32[2,4,3], %y: i32[2,3,5]) -> %z {
  %z = Opaque(%x, %y) {code: "CUSTOM", custom_code: "BatchMatMulV2"} : i32[2,4,5]
}

rules {
  passes(resolve_customop_batchmatmul)
  unchanged()
  refused("%x: is i32, expected f32")
}
