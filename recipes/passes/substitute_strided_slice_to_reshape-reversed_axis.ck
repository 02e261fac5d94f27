# SPDX-License-Identifier: Apache-2.0
# Refused: %z: reverses an axis

graph main(%x: f32[2,1,3,1]) -> %z {
  %z = StridedSlice(%x, [1,0,0,0], [-3,1,3,1], [-1,1,1,1])
}

rules {
  passes(substitute_strided_slice_to_reshape)
  unchanged()
  refused("reverses an axis")
}
