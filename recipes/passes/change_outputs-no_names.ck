# SPDX-License-Identifier: Apache-2.0
# Left alone: no other outputs are named.

graph main(%x: f32[2,3]) -> %y {
  %a = Neg(%x)
  %y = Tanh(%a)
}

rules {
  passes(change_outputs)
  unchanged()
}
