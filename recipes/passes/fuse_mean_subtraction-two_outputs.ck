# SPDX-License-Identifier: Apache-2.0
# Refused: %y: would have to stand for two outputs of the graph

graph main(%x: f32[3,4]) -> %d, %k {
  %w = const f32[5,4] gaussian(0, 1)
  %b = const f32[5] gaussian(0, 1)
  %y = FullyConnected(%x, %w, %b)
  %m = Mean(%y, [-1]) {keep_dims: true}
  %d = Sub(%y, %m)
  %k = Sub(%y, %m)
}

rules {
  passes(fuse_mean_subtraction)
  unchanged()
  refused("%y: would have to stand for two outputs of the graph")
}
