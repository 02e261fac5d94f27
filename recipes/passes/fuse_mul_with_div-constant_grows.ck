# SPDX-License-Identifier: Apache-2.0
# Refused: %z: the new constant would have the shape [2,4]

graph main(%x: f32[2,4]) -> %z {
  %m = Mul(%x, [1.0, 2.0, 3.0, 4.0])
  %z = Div(%m, [[2.0], [4.0]])
}

rules {
  passes(fuse_mul_with_div)
  unchanged()
  refused("%z: the new constant would have the shape [2,4]")
}
