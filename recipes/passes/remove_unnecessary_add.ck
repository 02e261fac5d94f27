# SPDX-License-Identifier: Apache-2.0
# Done: x + 0  ==  0 + x  ==  x - 0  ==  x.

graph main(%x: f32[2,3]) -> %sum {
  %n = Neg(%x)
  %sum = Add(%n, 0.0)
}

rules {
  passes(remove_unnecessary_add)
  order(Neg)
}
