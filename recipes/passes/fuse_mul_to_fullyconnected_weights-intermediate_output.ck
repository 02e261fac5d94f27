# SPDX-License-Identifier: Apache-2.0
# Refused: %a: is an output of the graph, the picture would lose it

graph main(%x: f32[2,4]) -> %z, %a {
  %w = const f32[3,4] gaussian(0, 1)
  %a = Mul(%x, 0.5)
  %z = FullyConnected(%a, %w)
}

rules {
  passes(fuse_mul_to_fullyconnected_weights)
  unchanged()
  refused("%a: is an output of the graph")
}
