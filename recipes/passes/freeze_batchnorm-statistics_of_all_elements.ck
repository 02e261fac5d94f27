# SPDX-License-Identifier: Apache-2.0
# Left alone: the statistics are those of all elements, not of each channel.

graph main(%x: f32[4,6,6,3]) -> %y {
  %mean = Mean(%x, [0,1,2,3]) {keep_dims: true}
  %square = SquaredDifference(%x, %mean)
  %variance = Mean(%square, [0,1,2,3]) {keep_dims: true}
  %e = Add(%variance, 0.001)
  %r = Rsqrt(%e)
  %c = Sub(%x, %mean)
  %y = Mul(%c, %r)
}

rules {
  passes(freeze_batchnorm)
  unchanged()
}
