# SPDX-License-Identifier: Apache-2.0
# Refused: a Reshape computes at most one unknown dimension.

graph main(%x: f32[?,?]) -> %z {
  %z = ExpandDims(%x, 0)
}

rules {
  passes(substitute_expand_dims_to_reshape)
  unchanged()
  refused("%z: has more than one unknown dimension: [1,?,?]")
}
