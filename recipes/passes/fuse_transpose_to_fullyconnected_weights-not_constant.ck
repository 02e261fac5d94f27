# SPDX-License-Identifier: Apache-2.0
# Refused: %w: is not constant, expected const f32[O,I]

graph main(%x: f32[2,3,4,2], %w: f32[5,24]) -> %y {
  %t = Transpose(%x, [0,3,1,2])
  %y = FullyConnected(%t, %w)
}

rules {
  passes(fuse_transpose_to_fullyconnected_weights)
  unchanged()
  refused("%w: is not constant")
}
