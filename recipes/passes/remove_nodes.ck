# SPDX-License-Identifier: Apache-2.0
# Done: a Reshape to the same shape, a Cast to the same dtype and a Concatenation of one operand are removed.

graph main(%x: f32[2,4]) -> %y {
  %a = Reshape(%x, [2,4])
  %b = Cast(%a) {in_data_type: f32, out_data_type: f32} : f32[2,4]
  %c = Concatenation(%b) {axis: 0}
  %y = Neg(%c)
}

rules {
  passes(remove_nodes)
  order(Neg)
}
