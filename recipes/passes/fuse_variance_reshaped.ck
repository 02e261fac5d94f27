# SPDX-License-Identifier: Apache-2.0
# Done: a Reshape restores the axis of the mean before it is subtracted.

graph main(%x: f32[2,3,8]) -> %z {
  %m = Mean(%x, [2])
  %q = Square(%x)
  %w = Mean(%q, [2])
  %s = Square(%m)
  %v = Sub(%w, %s) {act: RELU}
  %a = Add(%v, 0.001)
  %r = Rsqrt(%a)
  %k = Reshape(%r, [2, 3, 1])
  %i = Reshape(%m, [2, 3, 1])
  %d = Sub(%x, %i)
  %z = Mul(%d, %k)
}

rules {
  passes(fuse_variance, common_subexpression_elimination)
  ops(Mean: 2, Sub: 1, Square: 1)
}
