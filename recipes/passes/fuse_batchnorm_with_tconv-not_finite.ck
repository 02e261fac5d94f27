# SPDX-License-Identifier: Apache-2.0
# Refused: %z: w2 would not be finite

graph main(%x: f32[1,5,4,2]) -> %z {
  %w = const f32[3,2,3,2] gaussian(0, 1)
  %big = const f32[3] constant(3e38)
  %y = TransposeConv([1,10,8,3], %w, %x) {padding: SAME, stride_h: 2, stride_w: 2}
  %m = Mul(%y, %big)
  %z = Add(%m, [-2.0, 0.1, 0.0])
}

rules {
  passes(fuse_batchnorm_with_tconv)
  unchanged()
  refused("would not be finite")
}
