# SPDX-License-Identifier: Apache-2.0
# Done: the weights and the bias of the layer have a mean of 0 over the units.

graph main(%x: f32[3,4]) -> %z {
  %w = const f32[5,4] gaussian(0, 1)
  %b = const f32[5] gaussian(0, 1)
  %y = FullyConnected(%x, %w, %b)
  %m = Mean(%y, [-1]) {keep_dims: true}
  %d = Sub(%y, %m)
  %z = Exp(%d)
}

rules {
  passes(fuse_mean_subtraction)
  order(FullyConnected, Exp)
}
