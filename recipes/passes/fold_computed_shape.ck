# SPDX-License-Identifier: Apache-2.0
# Done: only the batch is unknown, so -1 can stand for it.

graph main(%x: f32[?,4,6]) -> %z {
  %s = Shape(%x) {out_type: i32}
  %i = StridedSlice(%s, [0], [1], [1]) {shrink_axis_mask: 1}
  %p = Pack(%i, 24) {values_count: 2}
  %z = Reshape(%x, %p) : f32[?,24]
}

rules {
  passes(fold_computed_shape, remove_dead)
  order(Reshape)
}
