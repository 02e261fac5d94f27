# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected a static [N,H,W,C], got [?,4,4,1]

graph main(%x: f32[?,4,4,1]) -> %y, %p {
  %y, %p = Opaque(%x) {
    code: "CUSTOM", custom_code: "MaxPoolWithArgmax", extra: {custom_options: array(u8,
      "a3NpemUABAECAgFzdHJpZGVzAAQBAgIBcGFkZGluZwAFVkFMSUQAAygRHwMBAycOHCwULAYkAQ==")}
  } : f32[?,2,2,1], i64[?,2,2,1]
}

rules {
  passes(resolve_customop_max_pool_with_argmax)
  unchanged()
  refused("expected a static [N,H,W,C], got [?,4,4,1]")
}
