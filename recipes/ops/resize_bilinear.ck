# SPDX-License-Identifier: Apache-2.0
# Bilinear resize to twice the size.

graph main(%x: f32[1,3,3,2]) -> %y {
  %y = ResizeBilinear(%x, [6,6]) {half_pixel_centers: true}
}
