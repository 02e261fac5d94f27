# SPDX-License-Identifier: Apache-2.0
# Refused: %r: comes from Relu, expected Add

graph main(%in: f32[2,40]) -> %y {
  %x = Neg(%in)
  %a = Add(%x, 3.0)
  %r = Relu(%a)
  %m = Mul(%x, %r)
  %z = Div(%m, 6.0)
  %y = Neg(%z)
}

rules {
  passes(fuse_hardswish)
  unchanged()
  refused("comes from Relu")
}
