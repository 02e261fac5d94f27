# SPDX-License-Identifier: Apache-2.0
# Refused: %z/rhs: expected only 0, got 1e-30

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Add(%x, [0.0, 1e-30, 0.0])
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_add)
  unchanged()
  refused("expected only 0, got 1e-30")
}
