# SPDX-License-Identifier: Apache-2.0
# Refused: one -1 cannot stand for two dimensions.

graph main(%x: f32[?,?,6]) -> %z {
  %s = Shape(%x) {out_type: i32}
  %i = StridedSlice(%s, [0], [1], [1]) {shrink_axis_mask: 1}
  %p = Pack(%i, -1, 3) {values_count: 3}
  %z = Reshape(%x, %p) : f32[?,?,3]
}

rules {
  passes(fold_computed_shape)
  unchanged()
  refused("more than one unknown dimension")
}
