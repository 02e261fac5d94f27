# SPDX-License-Identifier: Apache-2.0
# Refused: %dyn: is not constant, expected const f32[*,O|1]

graph main(%x: f32[1,5,4,2], %dyn: f32[3]) -> %z {
  %w = const f32[3,2,3,2] gaussian(0, 1)
  %y = TransposeConv([1,10,8,3], %w, %x) {padding: SAME, stride_h: 2, stride_w: 2}
  %m = Mul(%y, %dyn)
  %z = Add(%m, [-2.0, 0.1, 0.0])
}

rules {
  passes(fuse_batchnorm_with_tconv)
  unchanged()
  refused("%dyn: is not constant")
}
