# SPDX-License-Identifier: Apache-2.0
# Done: strided_slice(x) of all elements  ==  reshape(x, the shape without the axes that it drops).

graph main(%x: f32[2,1,3,1]) -> %z {
  %z = StridedSlice(%x, [0,0,0,0], [2,1,3,1], [1,1,1,1]) {shrink_axis_mask: 10}
}

rules {
  passes(substitute_strided_slice_to_reshape)
  order(Reshape)
}
