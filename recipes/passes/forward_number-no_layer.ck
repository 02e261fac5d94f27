# SPDX-License-Identifier: Apache-2.0
# Refused: no layer could fold the number.

graph main(%q: f32[1,2,5,3], %k: f32[1,2,3,5]) -> %y {
  %m = BatchMatMul(%q, %k)
  %y = Mul(%m, 0.5773)
}

rules {
  passes(forward_number)
  unchanged()
  refused("comes from an input, expected a layer with constant weights, or a product with a constant")
}
