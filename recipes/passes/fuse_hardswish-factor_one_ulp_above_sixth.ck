# SPDX-License-Identifier: Apache-2.0
# Refused: %m/rhs: expected 0.16666667, got 0.1666667

graph main(%in: f32[2,40]) -> %y {
  %x = Neg(%in)
  %a = Add(%x, 3.0)
  %r = Relu6(%a)
  %m = Mul(%r, 0.16666670143604279)
  %z = Mul(%x, %m)
  %y = Neg(%z)
}

rules {
  passes(fuse_hardswish)
  unchanged()
  refused("expected 0.16666667, got 0.1666667")
}
