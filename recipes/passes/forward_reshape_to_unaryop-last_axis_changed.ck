# SPDX-License-Identifier: Apache-2.0
# Refused: %y: works along the last axis, which %t changes

graph main(%x: f32[2,3,4], %u: f32[2,12]) -> %y {
  %t/shape = const i32[2] [2, 12]
  %t = Reshape(%x, %t/shape) : f32[2,12]
  %y = Softmax(%t) : f32[2,12]
}

rules {
  passes(forward_reshape_to_unaryop)
  unchanged()
  refused("works along the last axis, which %t changes")
}
