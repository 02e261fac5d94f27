# SPDX-License-Identifier: Apache-2.0
# Refused: the branch returns its input, and an input cannot be renamed to the output.

graph main(%x: f32[2,3]) -> %y {
  %y = If(true, %x) {then_graph: @same, else_graph: @half}
}

graph same(%x: f32[2,3]) -> %x {
}

graph half(%x: f32[2,3]) -> %y {
  %y = Mul(%x, 0.5)
}

rules {
  passes(remove_constant_if)
  unchanged()
  refused("is an output of the graph, and %x of same cannot take its name")
}
