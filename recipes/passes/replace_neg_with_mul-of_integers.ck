# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected f32, got i32

graph main(%x: i32[2,3]) -> %z {
  %z = Neg(%x)
}

rules {
  passes(replace_neg_with_mul)
  unchanged()
}
