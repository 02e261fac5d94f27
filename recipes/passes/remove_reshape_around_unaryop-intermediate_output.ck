# SPDX-License-Identifier: Apache-2.0
# Refused: %c: is an output of the graph, its shape must stay

graph main(%x: f32[2,3,4]) -> %y, %c {
  %a = Neg(%x)
  %b = Reshape(%a, [6, 4])
  %c = Exp(%b)
  %d = Reshape(%c, [24])
  %y = Neg(%d)
}

rules {
  passes(remove_reshape_around_unaryop)
  unchanged()
  refused("%c: is an output")
}
