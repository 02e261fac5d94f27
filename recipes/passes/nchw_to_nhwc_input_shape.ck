# SPDX-License-Identifier: Apache-2.0
# Done: the input is taken with channels last; a Transpose makes what it was.

graph main(%x: f32[1,3,4,5]) -> %y {
  %y = Softmax(%x)
}

rules {
  passes(nchw_to_nhwc_input_shape)
  order(Transpose, Softmax)
  value(%x, shape: [1,4,5,3])
  value(%y, shape: [1,3,4,5])
}
