# SPDX-License-Identifier: Apache-2.0
# Values at their places in zeros; what comes twice is added.

graph main(%updates: f32[3]) -> %y {
  %y = ScatterNd([[0],[4],[4]], %updates, [6])
}
