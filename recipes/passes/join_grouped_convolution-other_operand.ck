# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected 2 or more operands, each the result of a convolution of a slice that can be joined

graph main(%x: f32[1,5,5,4]) -> %y {
  %v = const f32[3,3,3,2] gaussian(0, 0.3)
  %w = const f32[3,3,3,2] gaussian(0, 0.3)
  %b = const f32[3] gaussian(0, 1)
  %p, %q = Split(3, %x) {num_splits: 2}
  %s = Conv2D(%p, %v, %b) {padding: SAME, act: RELU}
  %t = Conv2D(%q, %w) {padding: SAME, act: RELU}
  %y = Concatenation(%s, %t, %x) {axis: 3}
}

rules {
  passes(join_grouped_convolution)
  format(tflite)
  unchanged()
  refused("each the result of a convolution of a slice that can be joined; this holds for 2 of 3")
}
