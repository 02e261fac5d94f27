# SPDX-License-Identifier: Apache-2.0
# Refused: %v: expected a constant or the result of a Transpose

graph main(%x: f32[2,3,4,5], %u: f32[2,3,4,5]) -> %y {
  %t/perm = const i32[4] [0, 3, 1, 2]
  %v/shape = const i32[4] [2, 5, 3, 4]
  %t = Transpose(%x, %t/perm) : f32[2,5,3,4]
  %v = Reshape(%u, %v/shape) : f32[2,5,3,4]
  %y = Add(%t, %v) : f32[2,5,3,4]
}

rules {
  passes(forward_transpose_op)
  unchanged()
  refused("expected a constant or the result of a Transpose")
}
