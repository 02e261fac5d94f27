# SPDX-License-Identifier: Apache-2.0
# Keras normalizes a layer with TensorFlow's FusedBatchNorm: the mean is used twice, and 0 - m * r is added.

graph main(%x: f32[1,6,4]) -> %z {
  %m = Mean(%x, [0, 2])
  %i = Reshape(%m, [1, 6, 1])
  %q = SquaredDifference(%x, %i)
  %v = Mean(%q, [0, 2])
  %a = Add(%v, 0.001)
  %r = Rsqrt(%a)
  %o = Mul(%r, %m)
  %n = Sub(0.0, %o)
  %j = Reshape(%r, [1, 6, 1])
  %p = Mul(%x, %j)
  %h = Reshape(%n, [1, 6, 1])
  %z = Add(%p, %h) {act: RELU}
}

rules {
  passes(fuse_layernorm)
  order(Mean, Sub, Square, Mean, Add, Rsqrt, Mul)
}
