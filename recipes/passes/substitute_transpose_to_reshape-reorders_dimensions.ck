# SPDX-License-Identifier: Apache-2.0
# Refused: %z: perm [2, 1, 0, 3] changes the order of dimensions of %x, f32[2,1,3,1]

graph main(%x: f32[2,1,3,1]) -> %z {
  %z = Transpose(%x, [2,1,0,3])
}

rules {
  passes(substitute_transpose_to_reshape)
  unchanged()
  refused("changes the order of dimensions")
}
