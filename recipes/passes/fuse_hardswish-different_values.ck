# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected the same value in two places

graph main(%in: f32[2,40]) -> %y {
  %x = Neg(%in)
  %r = Add(%x, 3.0) {act: RELU6}
  %m = Mul(%in, %r)
  %z = Div(%m, 6.0)
  %y = Neg(%z)
}

rules {
  passes(fuse_hardswish)
  unchanged()
  refused("the same value in two places")
}
