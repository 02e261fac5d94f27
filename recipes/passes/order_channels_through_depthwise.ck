# SPDX-License-Identifier: Apache-2.0
# Done: operators on each channel alone get their constants in the new order.

graph main(%c: f32[1,6,6,16]) -> %y {
  %d = const f32[1,3,3,16] gaussian(0, 1)
  %e = const f32[16] gaussian(0, 1)
  %f = const f32[16] gaussian(0, 1)
  %g = const f32[1,1,16] gaussian(0, 1)
  %w = const f32[5,1,1,16] gaussian(0, 1)
  %r = Reshape(%c, [1, 6, 6, 2, 8])
  %t = Transpose(%r, [0, 1, 2, 4, 3])
  %s = Reshape(%t, [1, 6, 6, 16])
  %p = Pad(%s, [[0, 0], [1, 1], [1, 1], [0, 0]])
  %n = DepthwiseConv2D(%p, %d, %e) {padding: VALID, depth_multiplier: 1, act: RELU6}
  %m = MaxPool2D(%n) {stride_h: 2, stride_w: 2, filter_height: 2, filter_width: 2}
  %q = Mul(%m, %f)
  %k = PRelu(%q, %g)
  %i = ResizeNearestNeighbor(%k, [6, 6])
  %h = Mean(%i, [1, 2]) {keep_dims: true}
  %z = Mul(%i, %h)
  %y = Conv2D(%z, %w, [0.1, 0.2, 0.3, 0.4, 0.5])
}

rules {
  passes(order_channels)
  order(Pad, DepthwiseConv2D, MaxPool2D, Mul, PRelu, ResizeNearestNeighbor, Mean, Mul, Conv2D)
}
