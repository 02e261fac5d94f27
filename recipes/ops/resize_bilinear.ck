# SPDX-License-Identifier: Apache-2.0
# Twice the size, between the pixels by their distance.

graph main(%x: f32[1,3,3,2]) -> %y {
  %y = ResizeBilinear(%x, [6,6]) {half_pixel_centers: true}
}
