# SPDX-License-Identifier: Apache-2.0
# Refused: %t: has other users

graph main(%x: f32[2,3,4,5], %u: f32[2,3,4,5]) -> %y, %z {
  %t/perm = const i32[4] [0, 3, 1, 2]
  %t = Transpose(%x, %t/perm) : f32[2,5,3,4]
  %y = Relu(%t) : f32[2,5,3,4]
  %z = Neg(%t) : f32[2,5,3,4]
}

rules {
  passes(forward_transpose_op)
  unchanged()
  refused("has other users")
}
