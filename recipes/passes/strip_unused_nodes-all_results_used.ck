# SPDX-License-Identifier: Apache-2.0
# Left alone: every result has a user or is an output.

graph main(%x: f32[2,4]) -> %y, %z {
  %z = Tanh(%x)
  %y = Neg(%z)
}

rules {
  passes(strip_unused_nodes)
  unchanged()
}
