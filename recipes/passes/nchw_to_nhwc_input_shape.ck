# SPDX-License-Identifier: Apache-2.0
# Done: the input has channels last; a Transpose restores the old layout.

graph main(%x: f32[1,3,4,5]) -> %y {
  %y = Softmax(%x)
}

rules {
  passes(nchw_to_nhwc_input_shape)
  order(Transpose, Softmax)
  value(%x, shape: [1,4,5,3])
  value(%y, shape: [1,3,4,5])
}
