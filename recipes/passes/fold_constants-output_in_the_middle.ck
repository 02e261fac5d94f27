# SPDX-License-Identifier: Apache-2.0
# Refused: %b is an output of the graph, which stays computed

graph main(%x: f32[1,1]) -> %y, %b {
  %a = const f32[2,2] gaussian(0, 1)
  %b = Relu(%a)
  %y = Mul(%x, %x)
}

rules {
  passes(fold_constants)
  unchanged()
  refused("is an output of the graph")
}
