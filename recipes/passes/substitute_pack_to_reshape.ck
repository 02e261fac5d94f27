# SPDX-License-Identifier: Apache-2.0
# Done: pack([x])  ==  reshape(x, the shape with a 1 along the axis).

graph main(%x: f32[2,1,3,1]) -> %z {
  %z = Pack(%x) {values_count: 1, axis: 1}
}

rules {
  passes(substitute_pack_to_reshape)
  order(Reshape)
}
