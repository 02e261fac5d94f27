# SPDX-License-Identifier: Apache-2.0
# Rows of a table by index.

graph main(%table: f32[5,4]) -> %y {
  %y = EmbeddingLookup([4, 0, 0], %table)
}
