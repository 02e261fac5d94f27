# SPDX-License-Identifier: Apache-2.0
# Done: pixels are scaled, then normalized.

graph main(%x: f32[2,4]) -> %z {
  %m = Mul(%x, 0.00392157)
  %s = Sub(%m, [0.485, 0.456, 0.406, 0.5])
  %z = Div(%s, [0.229, 0.224, 0.225, 0.5]) {act: RELU6}
}

rules {
  passes(fuse_mul_with_add)
  order(Mul, Add)
}
