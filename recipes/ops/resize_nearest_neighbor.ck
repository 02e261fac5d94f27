# SPDX-License-Identifier: Apache-2.0
# Nearest-neighbour resize to twice the size.

graph main(%x: f32[1,3,3,2]) -> %y {
  %y = ResizeNearestNeighbor(%x, [6,6])
}
