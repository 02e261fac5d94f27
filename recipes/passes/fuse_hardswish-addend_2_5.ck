# SPDX-License-Identifier: Apache-2.0
# Refused: %r/rhs: expected 3.0, got 2.5

graph main(%in: f32[2,40]) -> %y {
  %x = Neg(%in)
  %r = Add(%x, 2.5) {act: RELU6}
  %m = Mul(%x, %r)
  %z = Div(%m, 6.0)
  %y = Neg(%z)
}

rules {
  passes(fuse_hardswish)
  unchanged()
  refused("expected 3.0, got 2.5")
}
