# SPDX-License-Identifier: Apache-2.0
# Refused: %b: is an output of the graph, whose shape must stay

graph main(%x: f32[2,3]) -> %y, %b {
  %a = Reshape(%x, [6])
  %b = Tanh(%a)
  %y = Reshape(%b, [2, 3])
}

rules {
  passes(remove_unnecessary_reshape)
  unchanged()
  refused("%b: is an output of the graph, whose shape must stay")
}
