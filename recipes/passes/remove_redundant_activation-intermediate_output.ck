# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is an output of the graph, the picture would lose it

graph main(%x: f32[40]) -> %y, %z {
  %y = Relu(%x)
  %z = Relu6(%y)
}

rules {
  passes(remove_redundant_activation)
  unchanged()
  refused("%y: is an output of the graph")
}
