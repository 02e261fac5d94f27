# SPDX-License-Identifier: Apache-2.0
# Refused: %z: w2 would underflow in its dtype; the model scales the sum, which does not.

graph main(%x: f32[1,5,4,2]) -> %z {
  %w = const f32[3,2,3,2] gaussian(0, 0.1)
  %small = const f32[3] constant(1e-44)
  %y = TransposeConv([1,10,8,3], %w, %x) {padding: SAME, stride_h: 2, stride_w: 2}
  %m = Mul(%y, %small)
  %z = Add(%m, [-2.0, 0.1, 0.0])
}

rules {
  passes(fuse_batchnorm_with_tconv)
  unchanged()
  refused("w2 would be too small for its dtype")
}
