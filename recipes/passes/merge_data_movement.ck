# SPDX-License-Identifier: Apache-2.0
# Done: the channel shuffle of two tensors is a PACK, a Transpose and a Reshape.

graph main(%x: f32[1,2,2,3], %z: f32[1,2,2,3]) -> %y {
  %c = Concatenation(%x, %z) {axis: 3}
  %r = Reshape(%c, [1, 2, 2, 2, 3])
  %t = Transpose(%r, [0, 1, 2, 4, 3])
  %s = Reshape(%t, [1, 2, 2, 6])
  %y = Relu(%s)
}

rules {
  passes(merge_data_movement)
  order(Pack, Transpose, Reshape, Relu)
}
