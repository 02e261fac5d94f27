# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is an output of the graph

graph main(%x: f32[3,4]) -> %z, %y {
  %w = const f32[5,4] gaussian(0, 1)
  %b = const f32[5] gaussian(0, 1)
  %y = FullyConnected(%x, %w, %b)
  %m = Mean(%y, [-1]) {keep_dims: true}
  %d = Sub(%y, %m)
  %z = Exp(%d)
}

rules {
  passes(fuse_mean_subtraction)
  unchanged()
  refused("%y: is an output of the graph")
}
