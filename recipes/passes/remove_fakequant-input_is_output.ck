# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is an output of the graph, and %x is an input or an output, too

graph main(%x: f32[4]) -> %y {
  %y = FakeQuant(%x) {num_bits: 8} : f32[4]
}

rules {
  passes(remove_fakequant)
  unchanged()
  refused("is an output")
}
