# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected rank 4, as %t has, got 5

graph main(%x: f32[2,3,4,5], %u: f32[2,3,4,5]) -> %y {
  %t/perm = const i32[4] [0, 3, 1, 2]
  %y/rhs = const f32[2,1,1,1,1] [1.0, 2.0]
  %t = Transpose(%x, %t/perm) : f32[2,5,3,4]
  %y = Add(%t, %y/rhs) : f32[2,2,5,3,4]
}

rules {
  passes(forward_transpose_op)
  unchanged()
  refused("expected rank 4, as %t has, got 5")
}
