# SPDX-License-Identifier: Apache-2.0
# Refused: %b: is an output of the graph, the picture would lose it

graph main(%x: f32[2,3,4]) -> %y, %b {
  %a = Neg(%x)
  %b = Mean(%a, [2]) {keep_dims: true}
  %c = Reshape(%b, [2, 3])
  %y = Neg(%c)
}

rules {
  passes(fuse_reshape_with_mean)
  unchanged()
  refused("%b: is an output of the graph")
}
