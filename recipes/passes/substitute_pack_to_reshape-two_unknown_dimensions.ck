# SPDX-License-Identifier: Apache-2.0
# Refused: a Reshape computes at most one unknown dimension.

graph main(%x: f32[?,?]) -> %z {
  %z = Pack(%x) {values_count: 1, axis: 0}
}

rules {
  passes(substitute_pack_to_reshape)
  unchanged()
  refused("%z: has more than one unknown dimension: [1,?,?]")
}
