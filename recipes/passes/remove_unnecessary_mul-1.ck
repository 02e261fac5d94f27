# SPDX-License-Identifier: Apache-2.0
# Refused: %z/rhs: holds 0.9999999, 1 is wanted

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Mul(%x, 0.9999999)
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_mul)
  unchanged()
  refused("1 is wanted")
}
