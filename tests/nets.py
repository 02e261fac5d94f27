# SPDX-License-Identifier: Apache-2.0
"""Models that several tests use, as text."""

TCONV_BATCH_NORM = """
graph main(%x: f32[1,4,4,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 0.1)
  %t = TransposeConv([1,8,8,3], %w, %x) {padding: SAME, stride_h: 2, stride_w: 2} : f32[1,8,8,3]
  %m = Mul(%t, [2.0, 1.5, 0.5])                                                   : f32[1,8,8,3]
  %y = Add(%m, [-2.0, 0.1, 0.0]) {act: RELU}                                      : f32[1,8,8,3]
}
"""
"""A transposed convolution, and a batch norm that O1 fuses into it."""
