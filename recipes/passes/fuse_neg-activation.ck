# SPDX-License-Identifier: Apache-2.0
# Refused: %m: act is RELU, expected NONE

graph main(%x: f32[2,3], %s: f32[2,1], %a: f32[2,3]) -> %y {
  %n = Neg(%s)
  %m = Mul(%n, %x) {act: RELU}
  %y = Add(%a, %m)
}

rules {
  passes(fuse_neg)
  unchanged()
  refused("act is RELU")
}
