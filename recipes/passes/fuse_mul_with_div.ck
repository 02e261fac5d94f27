# SPDX-License-Identifier: Apache-2.0
# Done: the constants of a product and a division become one constant.

graph main(%x: f32[2,4]) -> %z {
  %m = Mul([2.0], %x)
  %z = Div(%m, 4.0)
}

rules {
  passes(fuse_mul_with_div)
  order(Mul)
}
