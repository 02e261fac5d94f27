# SPDX-License-Identifier: Apache-2.0
# Refused: 0.1 is not 1 / 12

graph main(%x: f32[2,3,4]) -> %y {
  %s = Sum(%x, [1, 2])
  %y = Mul(%s, 0.1)
}

rules {
  passes(fuse_sum_to_mean)
  unchanged()
  refused("expected a multiplication by 1 / 12, the size of a sum, got 0.1")
}
