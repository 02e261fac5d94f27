# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is an output of the graph, the picture would lose it

graph main(%x: f32[2,3,4,5]) -> %z, %y {
  %y/axis = const i32[1] [1]
  %z/axis = const i32[1] [1]
  %y = Mean(%x, %y/axis) : f32[2,4,5]
  %z = Mean(%y, %z/axis) : f32[2,5]
}

rules {
  passes(fuse_mean_with_mean)
  unchanged()
  refused("%y: is an output of the graph")
}
