# SPDX-License-Identifier: Apache-2.0
# Done: an operator whose result nothing reads is removed (remove_dead by another name).

graph main(%x: f32[2,4]) -> %y {
  %unused = Tanh(%x)
  %y = Neg(%x)
}

rules {
  passes(strip_unused_nodes)
  order(Neg)
  absent(%unused)
}
