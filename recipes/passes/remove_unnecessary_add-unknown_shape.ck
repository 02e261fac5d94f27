# SPDX-License-Identifier: Apache-2.0
# Refused: %z/rhs: broadcasting with its shape [3,1] may change the shape [?,3] of %x

graph main(%in: f32[?,3]) -> %y {
  %x = Neg(%in)
  %z = Add(%x, [[0.0], [0.0], [0.0]])
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_add)
  unchanged()
  refused("may change the shape [?,3] of %x")
}
