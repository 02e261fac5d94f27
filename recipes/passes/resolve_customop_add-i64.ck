# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected f32 or i32, got i64

graph main(%x: i64[2,3], %y: i64[2,3]) -> %z {
  %z = Opaque(%x, %y) {code: "CUSTOM", custom_code: "AddV2"} : i64[2,3]
}

rules {
  passes(resolve_customop_add)
  unchanged()
  refused("expected f32 or i32, got i64")
}
