# SPDX-License-Identifier: Apache-2.0
# Done: SPARSE_TO_DENSE of constants, or of an empty list of values, becomes a constant.

graph main(%i: i32[0,2], %v: f32[0], %x: f32[2,3]) -> %y {
  %d/output_shape = const i32[2] [2, 3]
  %d/default_value = const f32[] 4.0
  %d = SparseToDense(%i, %d/output_shape, %v, %d/default_value) : f32[2,3]
  %y = Add(%d, %x) : f32[2,3]
}

rules {
  passes(fold_sparse_to_dense)
  order(Add)
}
