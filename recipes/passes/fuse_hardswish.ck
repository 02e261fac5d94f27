# SPDX-License-Identifier: Apache-2.0
# Done: x * relu6(x + 3) / 6, with operands in any order, or with a multiplication by 1/6, becomes HARD_SWISH.

graph main(%in: f32[2,40]) -> %y {
  %x = Neg(%in)
  %r = Add(%x, 3.0) {act: RELU6}
  %m = Mul(%x, %r)
  %z = Div(%m, 6.0)
  %y = Neg(%z)
}

rules {
  passes(fuse_hardswish)
  order(Neg, HardSwish, Neg)
}
