# SPDX-License-Identifier: Apache-2.0
# Weighted means of rows of a table.

graph main(%weights: f32[3]) -> %y {
  %ids = const i32[3] [1, 3, 0]
  %places = const i32[3,2] [[0,0],[0,1],[1,0]]
  %table = const f32[4,2] gaussian(0, 1)
  %y = EmbeddingLookupSparse(%ids, %places, [2,2], %weights, %table) {combiner: MEAN}  : f32[2,2]
}
