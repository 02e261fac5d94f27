# SPDX-License-Identifier: Apache-2.0
# Fused: scale per channel as [1,1,1,O], first operand of the product; a bias; stride 2 with SAME padding.

graph main(%x: f32[1,3,5,2]) -> %y {
  %w = const f32[4,3,2,2] gaussian(0, 0.3)
  %b = const f32[4] gaussian(0, 0.1)
  %scale = const f32[1,1,1,4] uniform(0.5, 1.5)
  %shift = const f32[4] gaussian(0, 0.2)
  %1 = TransposeConv([1,6,10,4], %w, %x, %b) {padding: SAME, stride_h: 2, stride_w: 2}
  %2 = Mul(%scale, %1)
  %y = Add(%2, %shift)
}

rules {
  passes(fuse_batchnorm_with_tconv)
  order(TransposeConv)
}
