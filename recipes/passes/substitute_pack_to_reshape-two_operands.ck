# SPDX-License-Identifier: Apache-2.0
# Refused: a PACK of two tensors is not a reshape.

graph main(%x: f32[2,3], %z: f32[2,3]) -> %y {
  %y = Pack(%x, %z) {values_count: 2, axis: 0}
}

rules {
  passes(substitute_pack_to_reshape)
  unchanged()
  refused("%y: has an operand values")
}
