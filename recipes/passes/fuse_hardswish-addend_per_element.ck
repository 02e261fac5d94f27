# SPDX-License-Identifier: Apache-2.0
# Refused: %three: expected one element, got 40

graph main(%in: f32[2,40]) -> %y {
  %three = const f32[40] constant(3.0)
  %x = Neg(%in)
  %r = Add(%x, %three) {act: RELU6}
  %m = Mul(%x, %r)
  %z = Div(%m, 6.0)
  %y = Neg(%z)
}

rules {
  passes(fuse_hardswish)
  unchanged()
  refused("expected one element, got 40")
}
