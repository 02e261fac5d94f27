# SPDX-License-Identifier: Apache-2.0
# Refused: %b: is an output of the graph, the picture would lose it

graph main(%x: f32[2,3,4,5]) -> %y, %b {
  %a = Neg(%x)
  %b = Transpose(%a, [0, 3, 1, 2])
  %c = Mean(%b, [2, 3])
  %y = Neg(%c)
}

rules {
  passes(fuse_transpose_with_mean)
  unchanged()
  refused("%b: is an output of the graph")
}
