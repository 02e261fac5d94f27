# SPDX-License-Identifier: Apache-2.0
# Refused: %k/rhs: expected 0.044715, got 0.05

graph main(%x: f32[2,3]) -> %y {
  %c = Pow(%x, 3.0)
  %k = Mul(%c, 0.05)
  %d = Add(%x, %k)
  %s = Mul(%d, 0.7978846)
  %t = Tanh(%s)
  %a = Add(%t, 1.0)
  %h = Mul(%x, %a)
  %y = Mul(%h, 0.5)
}

rules {
  passes(fuse_gelu)
  unchanged()
  refused("expected 0.044715, got 0.05")
}
