# SPDX-License-Identifier: Apache-2.0
# Done: expand_dims(x, axis)  ==  reshape(x, the shape with a 1 there).

graph main(%x: f32[2,1,3,1]) -> %z {
  %z = ExpandDims(%x, 2)
}

rules {
  passes(substitute_expand_dims_to_reshape)
  order(Reshape)
}
