# SPDX-License-Identifier: Apache-2.0
# How exporters from PyTorch write a small network: the interface and the batch norms are NCHW, every
# convolution stands between two transposes, padding is an operator of its own, hard-swish is a chain.

model circle {version: 0, description: "convolution, depthwise convolution, classifier in NCHW"}

graph main(%image: f32[1,3,16,16]) -> %scores {
  # a strided convolution, batch norm, RELU6
  %w1 = const f32[8,3,3,3] gaussian(0, 0.2)
  %b1 = const f32[8] zeros
  %scale1 = const f32[1,8,1,1] uniform(0.5, 1.5)
  %shift1 = const f32[1,8,1,1] gaussian(0, 0.2)
  %t1 = Transpose(%image, [0,2,3,1])
  %p1 = Pad(%t1, [[0,0],[1,1],[1,1],[0,0]])
  %c1 = Conv2D(%p1, %w1, %b1) {padding: VALID, stride_w: 2, stride_h: 2}
  %u1 = Transpose(%c1, [0,3,1,2])
  %m1 = Mul(%u1, %scale1)
  %a1 = Add(%m1, %shift1) {act: RELU6}

  # a depthwise convolution, batch norm, hard-swish
  %w2 = const f32[1,3,3,8] gaussian(0, 0.3)
  %b2 = const f32[8] zeros
  %scale2 = const f32[1,8,1,1] uniform(0.5, 1.5)
  %shift2 = const f32[1,8,1,1] gaussian(0, 0.2)
  %t2 = Transpose(%a1, [0,2,3,1])
  %c2 = DepthwiseConv2D(%t2, %w2, %b2) {padding: SAME, depth_multiplier: 1}
  %u2 = Transpose(%c2, [0,3,1,2])
  %m2 = Mul(%u2, %scale2)
  %a2 = Add(%m2, %shift2)
  %h1 = Add(%a2, 3.0) {act: RELU6}
  %h2 = Mul(%a2, %h1)
  %h3 = Div(%h2, 6.0)

  # global average pool, classifier
  %g = Mean(%h3, [-1,-2]) {keep_dims: true}
  %f = Reshape(%g, [1,8])
  %w3 = const f32[4,8] gaussian(0, 0.3)
  %b3 = const f32[4] gaussian(0, 0.1)
  %scores = FullyConnected(%f, %w3, %b3)
}

rules {
  passes(O1)
  ops(Conv2D: 1, DepthwiseConv2D: 1, HardSwish: 1, Mul: 0, Add: 0, Transpose: at_most(1))
}
