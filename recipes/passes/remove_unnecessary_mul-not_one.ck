# SPDX-License-Identifier: Apache-2.0
# Refused: %z/rhs: expected only 1, got 0.9999999

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Mul(%x, 0.9999999)
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_mul)
  unchanged()
  refused("expected only 1, got 0.9999999")
}
