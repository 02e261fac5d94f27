# SPDX-License-Identifier: Apache-2.0
# Done: the Transpose leaves the last axis, over which the mean is, in its place.

graph main(%x: f32[2,3,4]) -> %z {
  %w = const f32[5,4] gaussian(0, 1)
  %b = const f32[5] gaussian(0, 1)
  %y = FullyConnected(%x, %w, %b) {keep_num_dims: true}
  %t = Transpose(%y, [1, 0, 2])
  %m = Mean(%t, [-1]) {keep_dims: true}
  %d = Sub(%t, %m)
  %z = Exp(%d)
}

rules {
  passes(fuse_mean_subtraction)
  order(FullyConnected, Transpose, Exp)
}
