# SPDX-License-Identifier: Apache-2.0
# Refused: %a: Mul shares a constant with other operators

graph main(%x: f32[4,5], %z: f32[4,5]) -> %y, %v {
  %k = const f32[4,1] gaussian(0, 1)
  %a = Mul(%x, %k)
  %v = Mul(%z, %k)
  %y = Slice(%a, [1, 0], [2, 5])
}

rules {
  passes(backward_slice)
  unchanged()
  refused("%a: Mul shares a constant with other operators")
}
