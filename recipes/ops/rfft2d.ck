# SPDX-License-Identifier: Apache-2.0
# The Fourier transform of real images.

graph main(%x: f32[4,4]) -> %y {
  %y = Rfft2d(%x, [4,4])
}
