# SPDX-License-Identifier: Apache-2.0
# Refused: %w: has other uses

graph main(%x: f32[3,4]) -> %z, %k {
  %w = const f32[5,4] gaussian(0, 1)
  %b = const f32[5] gaussian(0, 1)
  %y = FullyConnected(%x, %w, %b)
  %m = Mean(%y, [-1]) {keep_dims: true}
  %d = Sub(%y, %m)
  %h = Neg(%x)
  %k = FullyConnected(%h, %w)
  %z = Exp(%d)
}

rules {
  passes(fuse_mean_subtraction)
  unchanged()
  refused("%w: has other uses")
}
