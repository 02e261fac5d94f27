# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is an output of the graph, and %x is an input or an output, too

graph main(%x: f32[2,3]) -> %y {
  %y = Mul(%x, 1.0)
}

rules {
  passes(remove_unnecessary_mul)
  unchanged()
  refused("is an output of the graph, and %x is an input or an output, too")
}
