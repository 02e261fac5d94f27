# SPDX-License-Identifier: Apache-2.0
# Refused: %m: is an output of the graph, the picture would lose it

graph main(%x: f32[1,5,4,2]) -> %z, %m {
  %w = const f32[3,2,3,2] gaussian(0, 1)
  %y = TransposeConv([1,10,8,3], %w, %x) {padding: SAME, stride_h: 2, stride_w: 2}
  %m = Mul(%y, [2.0, 1.5, -0.5])
  %z = Add(%m, [-2.0, 0.1, 0.0])
}

rules {
  passes(fuse_batchnorm_with_tconv)
  unchanged()
  refused("%m: is an output of the graph")
}
