# SPDX-License-Identifier: Apache-2.0
# Done: MAX_POOL_2D, and arithmetic for the positions; options: ksize [1,2,2,1], strides [1,2,2,1], VALID.

graph main(%x: f32[1,4,4,1]) -> %y, %p {
  %y, %p = Opaque(%x) {
    code: "CUSTOM", custom_code: "MaxPoolWithArgmax", extra: {custom_options: array(u8,
      "a3NpemUABAECAgFzdHJpZGVzAAQBAgIBcGFkZGluZwAFVkFMSUQAAygRHwMBAycOHCwULAYkAQ==")}
  } : f32[1,2,2,1], i64[1,2,2,1]
}

rules {
  passes(resolve_customop_max_pool_with_argmax)
  order(
    MaxPool2D, Split, Conv2D, ArgMax, Reshape, Cast, Mul, Floor, Mul, Neg, Add, Mul, Add, Mul, Add,
    Concatenation, Cast
  )
}
