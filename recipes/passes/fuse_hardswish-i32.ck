# SPDX-License-Identifier: Apache-2.0
# Refused: %x: is i32, expected f32

graph main(%in: i32[2,40]) -> %y {
  %x = Neg(%in)
  %r = Add(%x, 3) {act: RELU6}
  %m = Mul(%x, %r)
  %z = Div(%m, 6)
  %y = Neg(%z)
}

rules {
  passes(fuse_hardswish)
  unchanged()
  refused("is i32, expected f32")
}
