# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected windows within one image and channel

graph main(%x: f32[2,4,4,1]) -> %y, %p {
  %y, %p = Opaque(%x) {
    code: "CUSTOM", custom_code: "MaxPoolWithArgmax", extra: {custom_options: array(u8,
      "a3NpemUABAECAgFzdHJpZGVzAAQCAgIBcGFkZGluZwAFVkFMSUQAAygRHwMBAycOHCwULAYkAQ==")}
  } : f32[2,2,2,1], i64[2,2,2,1]
}

rules {
  passes(resolve_customop_max_pool_with_argmax)
  unchanged()
  refused("expected windows within one image and channel")
}
