# SPDX-License-Identifier: Apache-2.0
# Refused: %m: is an output of the graph, the picture would lose it

graph main(%x: f32[2,1,3,1]) -> %z, %m {
  %m = Minimum(%x, 6.0)
  %z = Maximum(%m, 0.0)
}

rules {
  passes(transform_min_max_to_relu6)
  unchanged()
  refused("%m: is an output of the graph")
}
