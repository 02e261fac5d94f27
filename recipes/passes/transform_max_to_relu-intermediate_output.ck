# SPDX-License-Identifier: Apache-2.0
# Refused: %m: is an output of the graph

graph main(%x: f32[2,3]) -> %y, %m {
  %m = Maximum(%x, -1.0)
  %y = Minimum(%m, 1.0)
}

rules {
  passes(transform_max_to_relu)
  unchanged()
  refused("%m: is an output of the graph")
}
