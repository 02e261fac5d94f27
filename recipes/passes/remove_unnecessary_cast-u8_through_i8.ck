# SPDX-License-Identifier: Apache-2.0
# Refused: %c1: i8 does not represent every number of u8

graph main(%x: u8[3,2]) -> %y {
  %c0 = Reshape(%x, [2, 3])
  %c1 = Cast(%c0) {in_data_type: u8, out_data_type: i8} : i8[2,3]
  %c2 = Cast(%c1) {in_data_type: i8, out_data_type: u8} : u8[2,3]
  %y = Reshape(%c2, [6])
}

rules {
  passes(remove_unnecessary_cast)
  unchanged()
  refused("i8 does not represent every number of u8")
}
