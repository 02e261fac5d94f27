# SPDX-License-Identifier: Apache-2.0
# Refused: %z/rhs: shape [1,1,3] broadcasts %x of [2,3]

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Add(%x, [[[0.0, 0.0, 0.0]]])
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_add)
  unchanged()
  refused("broadcasts %x of [2,3]")
}
