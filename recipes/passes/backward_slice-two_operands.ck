# SPDX-License-Identifier: Apache-2.0
# Refused: %a: slices of the operands would move more bytes, or need more operators

graph main(%x: f32[4,5], %z: f32[4,5]) -> %y {
  %a = Add(%x, %z)
  %y = Slice(%a, [1, 0], [2, 5])
}

rules {
  passes(backward_slice)
  unchanged()
  refused("%a: slices of the operands would move more bytes, or need more operators")
}
