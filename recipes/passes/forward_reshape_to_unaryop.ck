# SPDX-License-Identifier: Apache-2.0
# Done: f(reshape(x)) == reshape(f(x)) for an elementwise f, also with a constant number as second operand.

graph main(%x: f32[2,3,4], %u: f32[2,12]) -> %y {
  %t/shape = const i32[2] [2, 12]
  %t = Reshape(%x, %t/shape) : f32[2,12]
  %y = Neg(%t) : f32[2,12]
}

rules {
  passes(forward_reshape_to_unaryop)
  order(Neg, Reshape)
}
