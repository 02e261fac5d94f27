# SPDX-License-Identifier: Apache-2.0
# Refused: %y: act is RELU, which MEAN cannot have

graph main(%x: f32[2,3,4]) -> %y {
  %s = Sum(%x, [1, 2])
  %y = Div(%s, 12.0) {act: RELU}
}

rules {
  passes(fuse_sum_to_mean)
  unchanged()
  refused("%y: act is RELU, expected NONE")
}
