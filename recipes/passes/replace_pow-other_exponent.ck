# SPDX-License-Identifier: Apache-2.0
# Refused: expected the exponent 2, 3, 1/2 or -1/2.

graph main(%x: f32[2,3]) -> %z {
  %p = Abs(%x)
  %z = Pow(%p, 1.5)
}

rules {
  passes(replace_pow)
  unchanged()
}
