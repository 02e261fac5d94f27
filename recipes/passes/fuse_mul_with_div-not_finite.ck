# SPDX-License-Identifier: Apache-2.0
# Refused: %z: c would not be finite

graph main(%x: f32[2,4]) -> %z {
  %m = Mul(%x, 2.0)
  %z = Div(%m, 0.0)
}

rules {
  passes(fuse_mul_with_div)
  unchanged()
  refused("would not be finite")
}
