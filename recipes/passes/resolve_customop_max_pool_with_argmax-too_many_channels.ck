# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected at most 4096 elements in a window and at most 4096 channels, got 4 and 4097

graph main(%x: f32[1,2,2,4097]) -> %y, %p {
  %y, %p = Opaque(%x) {
    code: "CUSTOM", custom_code: "MaxPoolWithArgmax", extra: {custom_options: array(u8,
      "a3NpemUABAECAgFzdHJpZGVzAAQBAgIBcGFkZGluZwAFVkFMSUQAAygRHwMBAycOHCwULAYkAQ==")}
  } : f32[1,1,1,4097], i64[1,1,1,4097]
}

rules {
  passes(resolve_customop_max_pool_with_argmax)
  unchanged()
  refused("expected at most 4096 elements in a window and at most 4096 channels, got 4 and 4097")
}
