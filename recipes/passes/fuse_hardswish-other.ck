# SPDX-License-Identifier: Apache-2.0
# Refused: %m/rhs: is 0.1666667, 0.16666667 is wanted

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
  refused("is wanted")
}
