# SPDX-License-Identifier: Apache-2.0
# Done: transpose(x, perm)  ==  reshape(x, shape) where all dimensions above 1 keep their order.

graph main(%x: f32[2,1,3,1]) -> %z {
  %z = Transpose(%x, [0,2,1,3])
}

rules {
  passes(substitute_transpose_to_reshape)
  order(Reshape)
}
