# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is also read by Neg %o

graph main(%x: f32[1,5,4,2]) -> %z, %o {
  %w = const f32[3,2,3,2] gaussian(0, 1)
  %y = Conv2D(%x, %w)
  %z = Mul(%y, 0.5)
  %o = Neg(%y)
}

rules {
  passes(fuse_mul_with_conv)
  unchanged()
  refused("is also read by Neg")
}
