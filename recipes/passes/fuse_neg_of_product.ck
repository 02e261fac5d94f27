# SPDX-License-Identifier: Apache-2.0
# Done: offset + (mean * -1) * scale  ==  offset - mean * scale, as litert-torch writes a group norm.

graph main(%mean: f32[1,4,1,1], %scale: f32[1,4,2,1]) -> %y {
  %n = Mul(%mean, [[[[-1.0]]]])
  %m = Mul(%n, %scale)
  %y = Add(%m, [[[[0.5], [1.0]]]])
}

rules {
  passes(fuse_neg)
  order(Mul, Sub)
}
