# SPDX-License-Identifier: Apache-2.0
# Done: the unknown dimension stays whole, so that both chains hold for every number of images.

graph main(%x: f32[?,4,6]) -> %y, %z {
  %a = Reshape(%x, [-1, 2, 2, 6])
  %b = Transpose(%a, [0, 2, 1, 3])
  %c = Transpose(%b, [0, 2, 3, 1])
  %y = Relu(%c)
  %t = Transpose(%x, [1, 0, 2])
  %s = Slice(%t, [1, 0, 0], [2, -1, 6])
  %u = Transpose(%s, [1, 0, 2])
  %z = Tanh(%u)
}

rules {
  passes(merge_data_movement)
  ops(Transpose: 1, Slice: 1, Reshape: 1)
}
