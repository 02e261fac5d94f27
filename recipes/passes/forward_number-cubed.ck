# SPDX-License-Identifier: Apache-2.0
# Refused: a square is not linear, and the other factor is an input.

graph main(%x: f32[2,3]) -> %y {
  %s = Mul(%x, %x) : f32[2,3]
  %c = Mul(%s, %x) : f32[2,3]
  %y = Mul(%c, 0.5) : f32[2,3]
}

rules {
  passes(forward_number)
  unchanged()
  refused("comes from Mul, past which the pass moves no factor")
}
