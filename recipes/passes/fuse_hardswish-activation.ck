# SPDX-License-Identifier: Apache-2.0
# Refused: %r: act is RELU, expected RELU6

graph main(%in: f32[2,40]) -> %y {
  %x = Neg(%in)
  %r = Add(%x, 3.0) {act: RELU}
  %m = Mul(%x, %r)
  %z = Div(%m, 6.0)
  %y = Neg(%z)
}

rules {
  passes(fuse_hardswish)
  unchanged()
  refused("act is RELU, expected RELU6")
}
