# SPDX-License-Identifier: Apache-2.0
# Refused: %z/rhs: broadcasting with its shape [2,1,1] may change the shape [2,3] of %x

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Mul(%x, [[[1.0]], [[1.0]]])
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_mul)
  unchanged()
  refused("may change the shape [2,3] of %x")
}
