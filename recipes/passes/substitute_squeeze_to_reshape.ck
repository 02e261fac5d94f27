# SPDX-License-Identifier: Apache-2.0
# Done: squeeze(x)  ==  reshape(x, the shape without the dimensions of 1).

graph main(%x: f32[2,1,3,1]) -> %z {
  %z = Squeeze(%x)
}

rules {
  passes(substitute_squeeze_to_reshape)
  order(Reshape)
}
