# SPDX-License-Identifier: Apache-2.0
# Done: operators that the user names, by kind or by result, are removed.

graph main(%x: f32[2,4]) -> %y {
  %a = Neg(%x)
  %b = FakeQuant(%a) {min: -1.0, max: 1.0, num_bits: 8}
  %c = Tanh(%b)
  %d = Abs(%c)
  %y = Neg(%d)
}

rules {
  passes(remove_nodes_of)
  settings(remove_nodes_of: "FAKE_QUANT,%c")
  order(Neg, Abs, Neg)
}
