# SPDX-License-Identifier: Apache-2.0
# Refused: %s: expected the channels of [1,2,3,4], got shape [12,2]

graph main(%x: f32[1,2,3,4]) -> %y {
  %w = const f32[4,1,1,4] gaussian(0, 1)
  %c = Conv2D(%x, %w, none) {padding: SAME}
  %s = Reshape(%c, [12,2])
  %k = const f32[12,1] [1.0,2.0,3.0,4.0,1.0,2.0,3.0,4.0,1.0,2.0,3.0,4.0]
  %y = Mul(%s, %k)
}

rules {
  passes(forward_batchnorm)
  unchanged()
  refused("%s: expected the channels of [1,2,3,4], got shape [12,2]")
}
