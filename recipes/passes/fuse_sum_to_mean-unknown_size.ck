# SPDX-License-Identifier: Apache-2.0
# Refused: the number of elements of a sum is unknown

graph main(%x: f32[2,?,4]) -> %y {
  %s = Sum(%x, [1, 2])
  %y = Div(%s, 12.0)
}

rules {
  passes(fuse_sum_to_mean)
  unchanged()
  refused("%x: expected known sizes above 0 along the axes, got [2,?,4]")
}
