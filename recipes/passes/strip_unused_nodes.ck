# SPDX-License-Identifier: Apache-2.0
# Done: an operator without used results is removed (another name of remove_dead).

graph main(%x: f32[2,4]) -> %y {
  %unused = Tanh(%x)
  %y = Neg(%x)
}

rules {
  passes(strip_unused_nodes)
  order(Neg)
  absent(%unused)
}
