# SPDX-License-Identifier: Apache-2.0
# Refused: the operand has another shape than the result, so it cannot replace it.

graph main(%x: f32[2,4]) -> %y {
  %a = Reshape(%x, [8])
  %y = Neg(%a)
}

rules {
  passes(remove_nodes_of)
  settings(remove_nodes_of: "RESHAPE")
  unchanged()
  refused("%a: is f32[8], %x is f32[2,4]")
}
