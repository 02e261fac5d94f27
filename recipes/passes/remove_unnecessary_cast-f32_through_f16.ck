# SPDX-License-Identifier: Apache-2.0
# Refused: %c1: f16 does not represent every number of f32

graph main(%x: f32[3,2]) -> %y {
  %c0 = Reshape(%x, [2, 3])
  %c1 = Cast(%c0) {in_data_type: f32, out_data_type: f16} : f16[2,3]
  %c2 = Cast(%c1) {in_data_type: f16, out_data_type: f32} : f32[2,3]
  %y = Reshape(%c2, [6])
}

rules {
  passes(remove_unnecessary_cast)
  unchanged()
  refused("f16 does not represent every number of f32")
}
