# SPDX-License-Identifier: Apache-2.0
# Refused: the probabilities are an output, too.

graph main(%x: f32[2,3,5]) -> %z, %s {
  %s = Softmax(%x) {beta: 1.0}
  %z = ArgMax(%s, 2) {output_type: i64}
}

rules {
  passes(remove_softmax)
  unchanged()
  refused("%s: is an output of the graph")
}
