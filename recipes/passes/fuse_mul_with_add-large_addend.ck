# SPDX-License-Identifier: Apache-2.0
# Refused: x - mean cancels most of x; x / 2 - mean / 2 would lose these bits.

graph main(%x: f32[2,4]) -> %z {
  %s = Sub(%x, 65536.0)
  %m = Div(%s, 2.0)
  %z = Sub(%m, 0.5)
}

rules {
  passes(fuse_mul_with_add)
  unchanged()
  refused("%z: expected addends up to 256, got 65536")
}
