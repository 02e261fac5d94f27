# SPDX-License-Identifier: Apache-2.0
# Refused: %z: expected all elements of %x, f32[2,1,3,1], got f32[2,1,2,1]

graph main(%x: f32[2,1,3,1]) -> %z {
  %z = StridedSlice(%x, [0,0,1,0], [2,1,3,1], [1,1,1,1])
}

rules {
  passes(substitute_strided_slice_to_reshape)
  unchanged()
  refused("expected all elements of %x, f32[2,1,3,1], got f32[2,1,2,1]")
}
