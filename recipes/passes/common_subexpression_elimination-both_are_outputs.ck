# SPDX-License-Identifier: Apache-2.0
# Refused: %z and %y are equal, but both are outputs of the graph, and a copy is not possible or not cheaper

graph main(%x: f32[?]) -> %y, %z {
  %y = Neg(%x)
  %z = Neg(%x)
}

rules {
  passes(common_subexpression_elimination)
  unchanged()
  refused("both are outputs of the graph")
}
