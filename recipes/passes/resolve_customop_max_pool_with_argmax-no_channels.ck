# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected data with elements, got [1,4,4,0]

graph main(%x: f32[1,4,4,0]) -> %y, %p {
  %y, %p = Opaque(%x) {
    code: "CUSTOM", custom_code: "MaxPoolWithArgmax", extra: {custom_options: array(u8,
      "a3NpemUABAECAgFzdHJpZGVzAAQBAgIBcGFkZGluZwAFVkFMSUQAAygRHwMBAycOHCwULAYkAQ==")}
  } : f32[1,2,2,0], i64[1,2,2,0]
}

rules {
  passes(resolve_customop_max_pool_with_argmax)
  unchanged()
  refused("expected data with elements, got [1,4,4,0]")
}
