# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is broadcast to another rank

graph main(%x: f32[2,3,4], %u: f32[2,12]) -> %y {
  %t/shape = const i32[2] [2, 12]
  %y/rhs = const f32[1,1,1] [2.0]
  %t = Reshape(%x, %t/shape) : f32[2,12]
  %y = Mul(%t, %y/rhs) : f32[1,2,12]
}

rules {
  passes(forward_reshape_to_unaryop)
  unchanged()
  refused("%y: is broadcast to another rank")
}
