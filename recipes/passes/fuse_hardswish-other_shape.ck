# SPDX-License-Identifier: Apache-2.0
# Refused: %z: has shape [1,2,40], the rewrite gives [2,40]

graph main(%in: f32[2,40]) -> %y {
  %x = Neg(%in)
  %r = Add(%x, [[[3.0]]]) {act: RELU6}
  %m = Mul(%x, %r)
  %z = Div(%m, 6.0)
  %y = Neg(%z)
}

rules {
  passes(fuse_hardswish)
  unchanged()
  refused("has shape [1,2,40], the rewrite gives [2,40]")
}
