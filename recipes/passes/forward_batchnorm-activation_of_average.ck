# SPDX-License-Identifier: Apache-2.0
# Refused: a negative factor does not commute with the RELU of the average pool.

graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %a = Conv2D(%x, %w, none)
  %p = AveragePool2D(%a) {filter_height: 2, filter_width: 2, stride_h: 2, stride_w: 2, act: RELU}
  %y = Mul(%p, [1.0, -1.0, 2.0, 0.5])
}

rules {
  passes(forward_batchnorm)
  unchanged()
  refused("%p: act is RELU, expected NONE")
}
