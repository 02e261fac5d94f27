# SPDX-License-Identifier: Apache-2.0
# Refused: %s: is an output of the graph

graph main(%x: f32[2,3,4]) -> %y, %s {
  %s = Sum(%x, [1, 2])
  %y = Div(%s, 12.0)
}

rules {
  passes(fuse_sum_to_mean)
  unchanged()
  refused("%s: is an output of the graph")
}
