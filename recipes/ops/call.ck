# SPDX-License-Identifier: Apache-2.0
# An unconditional call of another graph.

model tflite

graph main(%x: f32[2,3]) -> %y {
  %y = Call(%x) {subgraph: @square}
}

graph square(%x: f32[2,3]) -> %y {
  %y = Mul(%x, %x)
}
