# SPDX-License-Identifier: Apache-2.0
# Done: Casts to the same dtype, and Casts to a wider dtype and back, are removed.

graph main(%x: f32[3,2]) -> %y {
  %c0 = Reshape(%x, [2, 3])
  %c1 = Cast(%c0) {in_data_type: f32, out_data_type: f32} : f32[2,3]
  %y = Reshape(%c1, [6])
}

rules {
  passes(remove_unnecessary_cast)
  order(Reshape, Reshape)
}
