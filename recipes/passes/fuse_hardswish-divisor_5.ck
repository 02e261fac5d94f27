# SPDX-License-Identifier: Apache-2.0
# Refused: %z/rhs: expected 6.0, got 5.0

graph main(%in: f32[2,40]) -> %y {
  %x = Neg(%in)
  %r = Add(%x, 3.0) {act: RELU6}
  %m = Mul(%x, %r)
  %z = Div(%m, 5.0)
  %y = Neg(%z)
}

rules {
  passes(fuse_hardswish)
  unchanged()
  refused("expected 6.0, got 5.0")
}
