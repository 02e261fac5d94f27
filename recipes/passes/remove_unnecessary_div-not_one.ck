# SPDX-License-Identifier: Apache-2.0
# Refused: %z/rhs: expected only 1, got 2.0

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Div(%x, [2.0])
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_div)
  unchanged()
  refused("expected only 1, got 2.0")
}
