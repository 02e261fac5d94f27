# SPDX-License-Identifier: Apache-2.0
# Left alone: the named result is already the output.

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %y = Tanh(%a)
}

rules {
  passes(change_outputs)
  settings(change_outputs: "y")
  unchanged()
}
