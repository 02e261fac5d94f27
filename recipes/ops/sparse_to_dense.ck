# SPDX-License-Identifier: Apache-2.0
# Values at given indices, a default value elsewhere.

graph main(%values: f32[3]) -> %y {
  %y = SparseToDense([[0,1],[1,0],[1,2]], [2,3], %values, -1.0) {validate_indices: true}
}
