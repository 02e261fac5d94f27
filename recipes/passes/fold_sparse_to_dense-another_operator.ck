# SPDX-License-Identifier: Apache-2.0
# Left alone: the model has no operator that this pass matches.

graph main(%x: f32[2]) -> %y {
  %k = Cast([1, 2]) : f32[2]
  %y = Add(%x, %k)
}

rules {
  passes(fold_sparse_to_dense)
  unchanged()
}
