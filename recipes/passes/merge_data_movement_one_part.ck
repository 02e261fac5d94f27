# SPDX-License-Identifier: Apache-2.0
# Done: of the parts of a SPLIT one is used, so that one SLICE takes it.

graph main(%x: f32[2,6,5]) -> %y {
  %t = Transpose(%x, [0, 2, 1])
  %a, %b, %c = Split(2, %t) {num_splits: 3}
  %u = Transpose(%b, [0, 2, 1])
  %y = Relu(%u)
}

rules {
  passes(merge_data_movement)
  order(Slice, Relu)
}
