# SPDX-License-Identifier: Apache-2.0
# Two NHWC convolutions with NCHW arithmetic between them: only the transposes at the inputs and outputs stay.

graph main(%x: f32[1,3,8,8]) -> %y {
  %w1 = const f32[4,3,3,3] gaussian(0, 0.3)
  %w2 = const f32[2,1,1,4] gaussian(0, 0.3)
  %scale = const f32[1,4,1,1] uniform(0.5, 1.5)
  %in = Transpose(%x, [0,2,3,1])
  %c1 = Conv2D(%in, %w1, none) {padding: SAME}
  %n1 = Transpose(%c1, [0,3,1,2])
  %m = Mul(%n1, %scale)
  %t = Tanh(%m)
  %cat = Concatenation(%m, %t) {axis: 1}
  %half = Slice(%cat, [0,2,0,0], [1,4,8,8])
  %h1 = Transpose(%half, [0,2,3,1])
  %c2 = Conv2D(%h1, %w2, none) {padding: SAME}
  %y = Transpose(%c2, [0,3,1,2])
}

rules {
  passes(optimize_layout)
  ops(Transpose: 2, Conv2D: 2)
}
