# SPDX-License-Identifier: Apache-2.0
# Done: SQUEEZE of no dimension, CONCATENATION and ADD_N of one operand, BROADCAST_TO and TILE to the same
#   shape.

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Concatenation(%x) {axis: 0}
  %y = Abs(%z)
}

rules {
  passes(remove_identity)
  order(Neg, Abs)
}
