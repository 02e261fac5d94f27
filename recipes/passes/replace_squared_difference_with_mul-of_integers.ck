# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected f32, got i32

graph main(%x: i32[2,3], %y: i32[2,3]) -> %z {
  %z = SquaredDifference(%x, %y)
}

rules {
  passes(replace_squared_difference_with_mul)
  unchanged()
}
