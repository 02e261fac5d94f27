# SPDX-License-Identifier: Apache-2.0
# Refused: %y: windows of 4 in 4097 channels, expected at most 4096 of either

graph main(%x: f32[1,2,2,4097]) -> %y, %p {
  %y, %p = Opaque(%x) {
    code: "CUSTOM", custom_code: "MaxPoolWithArgmax", extra: {custom_options: array(u8,
      "a3NpemUABAECAgFzdHJpZGVzAAQBAgIBcGFkZGluZwAFVkFMSUQAAygRHwMBAycOHCwULAYkAQ==")}
  } : f32[1,1,1,4097], i64[1,1,1,4097]
}

rules {
  passes(resolve_customop_max_pool_with_argmax)
  unchanged()
  refused("windows of 4 in 4097 channels, expected at most 4096 of either")
}
