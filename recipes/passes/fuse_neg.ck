# SPDX-License-Identifier: Apache-2.0
# Done: x + (-y)  ==  x - y.

graph main(%x: f32[2,3], %s: f32[2,1], %a: f32[2,3]) -> %y {
  %n = Neg(%s)
  %m = Mul(%n, %x)
  %y = Add(%a, %m) {act: RELU}
}

rules {
  passes(fuse_neg)
  order(Mul, Sub)
}
