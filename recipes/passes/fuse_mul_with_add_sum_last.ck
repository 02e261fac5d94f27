# SPDX-License-Identifier: Apache-2.0
# Done: the difference comes first.

graph main(%x: f32[2,4]) -> %z {
  %s = Sub(%x, [1.0, 2.0, 3.0, 4.0])
  %m = Div(%s, 2.0)
  %z = Sub(%m, 0.5)
}

rules {
  passes(fuse_mul_with_add)
  order(Mul, Add)
}
