# SPDX-License-Identifier: Apache-2.0
# Refused: %dyn: is not constant, expected const f32[*,1]

graph main(%x: f32[2,4], %dyn: f32[4]) -> %z {
  %m = Mul(%x, %dyn)
  %z = Div(%m, 4.0)
}

rules {
  passes(fuse_mul_with_div)
  unchanged()
  refused("%dyn: is not constant")
}
