# SPDX-License-Identifier: Apache-2.0
# Refused: %y: would need an ADD or a Reshape, so nothing is gained

graph main(%x: f32[2,3], %w: f32[3,4], %b: f32[4]) -> %y {
  %t/perm = const i32[2] [1, 0]
  %t = Transpose(%w, %t/perm) : f32[4,3]
  %y = FullyConnected(%x, %t, %b) : f32[2,4]
}

rules {
  passes(fuse_transpose_with_fullyconnected)
  unchanged()
  refused("would need an ADD or a Reshape, so nothing is gained")
}
