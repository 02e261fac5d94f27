# SPDX-License-Identifier: Apache-2.0
# Refused: with SAME padding, border positions see zeros without the offset.

graph main(%x: f32[1,5,5,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 0.3)
  %m = Add(%x, [2.0, 0.5])
  %y = Conv2D(%m, %w, none) {padding: SAME}
}

rules {
  passes(fuse_add_to_conv_bias)
  unchanged()
  refused("expected VALID padding, got SAME, whose border of zeros does not get the offset")
}
