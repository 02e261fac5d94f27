# SPDX-License-Identifier: Apache-2.0
# Twice the size, by the nearest pixel.

graph main(%x: f32[1,3,3,2]) -> %y {
  %y = ResizeNearestNeighbor(%x, [6,6])
}
