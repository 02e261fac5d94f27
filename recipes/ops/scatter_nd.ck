# SPDX-License-Identifier: Apache-2.0
# Values scattered into zeros; duplicates are added.

graph main(%updates: f32[3]) -> %y {
  %y = ScatterNd([[0],[4],[4]], %updates, [6])
}
