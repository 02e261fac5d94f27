# SPDX-License-Identifier: Apache-2.0
# Refused: %r: is also read by Neg %z

graph main(%x: f32[2,3,4,2]) -> %y, %z {
  %w = const f32[5,24] gaussian(0, 1)
  %t = Transpose(%x, [0,3,1,2])
  %r = Reshape(%t, [2,24])
  %y = FullyConnected(%r, %w)
  %z = Neg(%r)
}

rules {
  passes(fuse_transpose_to_fullyconnected_weights)
  unchanged()
  refused("%r: is also read by Neg %z")
}
