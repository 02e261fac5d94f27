# SPDX-License-Identifier: Apache-2.0
# Refused: %k/rhs: expected 0.044715, got nan

graph main(%x: f32[1,8]) -> %y {
  %c = Pow(%x, 3.0)
  %k = Mul(%c, [nan])
  %d = Add(%x, %k)
  %s = Mul(%d, [0.7978846])
  %e = Tanh(%s)
  %a = Add(%e, 1.0)
  %m = Mul(%x, %a)
  %y = Mul(%m, 0.5)
}

rules {
  passes(fuse_gelu)
  unchanged()
  refused("%k/rhs: expected 0.044715, got nan")
}
