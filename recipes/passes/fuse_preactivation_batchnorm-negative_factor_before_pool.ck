# SPDX-License-Identifier: Apache-2.0
# Refused: they turn maxima into minima

graph main(%x: f32[1,6,6,3]) -> %z {
  %w = const f32[3,3,3,3] gaussian(0, 1)
  %v = const f32[2,3,3,3] gaussian(0, 1)
  %a = Conv2D(%x, %w)
  %c = MaxPool2D(%a) {filter_width: 2, filter_height: 2}
  %m = Mul(%c, [2.0, -0.5, 1.0])
  %r = Add(%m, [0.1, -0.2, 0.3]) {act: RELU}
  %z = Conv2D(%r, %v, [1.0, 2]) {act: RELU6}
}

rules {
  passes(fuse_preactivation_batchnorm)
  unchanged()
  refused("expected no negative factor, which would turn the maxima into minima")
}
