# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected f32 data and positions of i32 or i64

graph main(%x: f32[1,4,4,1]) -> %y, %p {
  %y, %p = Opaque(%x) {
    code: "CUSTOM", custom_code: "MaxPoolWithArgmax", extra: {custom_options: array(u8,
      "a3NpemUABAECAgFzdHJpZGVzAAQBAgIBcGFkZGluZwAFVkFMSUQAAygRHwMBAycOHCwULAYkAQ==")}
  } : f32[1,2,2,1], i16[1,2,2,1]
}

rules {
  passes(resolve_customop_max_pool_with_argmax)
  unchanged()
  refused("expected f32 data and positions of i32 or i64")
}
