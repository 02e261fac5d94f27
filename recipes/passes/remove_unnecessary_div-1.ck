# SPDX-License-Identifier: Apache-2.0
# Refused: %z/rhs: holds 2.0, 1 is wanted

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Div(%x, [2.0])
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_div)
  unchanged()
  refused("1 is wanted")
}
