# SPDX-License-Identifier: Apache-2.0
# Refused: %t: has its axes in the order [0, 3, 1, 2], which is not within rows of 12 elements

graph main(%x: f32[2,3,4,2]) -> %y {
  %w = const f32[5,12] gaussian(0, 1)
  %t = Transpose(%x, [0,3,1,2])
  %y = FullyConnected(%t, %w)
}

rules {
  passes(fuse_transpose_to_fullyconnected_weights)
  unchanged()
  refused("%t: has its axes in the order [0, 3, 1, 2], which is not within rows of 12 elements")
}
