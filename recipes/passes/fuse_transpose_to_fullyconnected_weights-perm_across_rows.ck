# SPDX-License-Identifier: Apache-2.0
# Refused: %t: expected a perm within rows of 12 elements, got [0, 3, 1, 2] for the result f32[2,2,3,4]

graph main(%x: f32[2,3,4,2]) -> %y {
  %w = const f32[5,12] gaussian(0, 1)
  %t = Transpose(%x, [0,3,1,2])
  %y = FullyConnected(%t, %w)
}

rules {
  passes(fuse_transpose_to_fullyconnected_weights)
  unchanged()
  refused("expected a perm within rows of 12 elements, got [0, 3, 1, 2]")
}
