# SPDX-License-Identifier: Apache-2.0
# Done: Two constants, one operator.

graph main(%x: f32[2,4]) -> %z {
  %m = Mul([2.0], %x)
  %z = Div(%m, 4.0)
}

rules {
  passes(fuse_mul_with_div)
  order(Mul)
}
