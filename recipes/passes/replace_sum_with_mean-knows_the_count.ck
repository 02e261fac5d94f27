# SPDX-License-Identifier: Apache-2.0
# Refused: %x: expected known sizes above 0 along the axes, got [?,3,4]

graph main(%x: f32[?,3,4]) -> %z {
  %z = Sum(%x, [0])
}

rules {
  passes(replace_sum_with_mean)
  unchanged()
}
