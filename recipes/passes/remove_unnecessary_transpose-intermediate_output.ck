# SPDX-License-Identifier: Apache-2.0
# Refused: %b: is an output of the graph, the picture would lose it

graph main(%x: f32[1,1,1,64]) -> %y, %b {
  %a = Neg(%x)
  %b = Transpose(%a, [0, 3, 1, 2])
  %c = Reshape(%b, [1, 64])
  %y = Neg(%c)
}

rules {
  passes(remove_unnecessary_transpose)
  unchanged()
  refused("%b: is an output of the graph")
}
