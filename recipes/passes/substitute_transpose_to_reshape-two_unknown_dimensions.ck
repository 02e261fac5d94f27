# SPDX-License-Identifier: Apache-2.0
# Refused: a Reshape computes at most one unknown dimension.

graph main(%x: f32[?,?,1]) -> %z {
  %z = Transpose(%x, [2,0,1])
}

rules {
  passes(substitute_transpose_to_reshape)
  unchanged()
  refused("%z: has more than one unknown dimension: [1,?,?]")
}
