# SPDX-License-Identifier: Apache-2.0
# An image is resized to the size that it has.

graph main(%x: f32[1,5,7,2]) -> %y {
  %a = Neg(%x)
  %b = ResizeBilinear(%a, [5, 7]) {half_pixel_centers: true}
  %c = ResizeNearestNeighbor(%b, [5, 7])
  %y = ResizeBilinear(%c, [5, 7]) {align_corners: true}
}

rules {
  passes(remove_identity)
  order(Neg)
}
