# SPDX-License-Identifier: Apache-2.0
# Done: the input cannot be the output, but its copy is a Reshape, which moves nothing.

graph main(%x: f32[2,3]) -> %y {
  %t = Transpose(%x, [1, 0])
  %y = Transpose(%t, [1, 0])
}

rules {
  passes(merge_data_movement)
  order(Reshape)
}
