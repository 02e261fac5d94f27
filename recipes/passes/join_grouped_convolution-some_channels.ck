# SPDX-License-Identifier: Apache-2.0
# Refused: %x: has shape [1,5,5,6], 4 channels are read

graph main(%x: f32[1,5,5,6]) -> %y, %r {
  %v = const f32[3,3,3,2] gaussian(0, 0.3)
  %w = const f32[3,3,3,2] gaussian(0, 0.3)
  %b = const f32[3] gaussian(0, 1)
  %p, %q, %r = Split(3, %x) {num_splits: 3}
  %s = Conv2D(%p, %v, %b) {padding: SAME, act: RELU}
  %t = Conv2D(%q, %w) {padding: SAME, act: RELU}
  %y = Concatenation(%s, %t) {axis: 3}
}

rules {
  passes(join_grouped_convolution)
  format(tflite)
  unchanged()
  refused("%x: has shape [1,5,5,6], 4 channels are read")
}
