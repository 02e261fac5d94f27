# SPDX-License-Identifier: Apache-2.0
# Refused: %z: expected addends that do not cancel, got 0.5 with the sum 0

graph main(%x: f32[2,4]) -> %z {
  %s = Add(%x, 1.0)
  %m = Mul(%s, 0.5)
  %z = Sub(%m, 0.5)
}

rules {
  passes(fuse_mul_with_add)
  unchanged()
  refused("%z: expected addends that do not cancel, got 0.5 with the sum 0")
}
