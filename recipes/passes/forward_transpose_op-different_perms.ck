# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected one constant perm for all operands, got [[0, 3, 1, 2], [0, 3, 2, 1]]

graph main(%x: f32[2,3,3,5], %u: f32[2,3,3,5]) -> %y {
  %t/perm = const i32[4] [0, 3, 1, 2]
  %v/perm = const i32[4] [0, 3, 2, 1]
  %t = Transpose(%x, %t/perm) : f32[2,5,3,3]
  %v = Transpose(%u, %v/perm) : f32[2,5,3,3]
  %y = Mul(%t, %v) : f32[2,5,3,3]
}

rules {
  passes(forward_transpose_op)
  unchanged()
  refused("expected one constant perm for all operands, got [[0, 3, 1, 2], [0, 3, 2, 1]]")
}
