# SPDX-License-Identifier: Apache-2.0
# Elements by multi-dimensional index.

graph main(%x: f32[3,4]) -> %y {
  %y = GatherNd(%x, [[0,1],[2,3]])
}
