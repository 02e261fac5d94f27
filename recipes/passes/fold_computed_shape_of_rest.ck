# SPDX-License-Identifier: Apache-2.0
# Done: the entry -1 stands for 4 * 6 / 3, whatever the batch is.

graph main(%x: f32[?,4,6]) -> %z {
  %s = Shape(%x) {out_type: i32}
  %i = StridedSlice(%s, [0], [1], [1]) {shrink_axis_mask: 1}
  %p = Pack(%i, -1, 3) {values_count: 3}
  %z = Reshape(%x, %p) : f32[?,?,3]
}

rules {
  passes(fold_computed_shape, remove_dead)
  order(Reshape)
}
