# SPDX-License-Identifier: Apache-2.0
# Done: the output has channels last, by a Transpose of the old output.

graph main(%x: f32[1,3,4,5]) -> %y {
  %y = Softmax(%x)
}

rules {
  passes(nchw_to_nhwc_output_shape)
  order(Softmax, Transpose)
  value(%x, shape: [1,3,4,5])
  value(%y, shape: [1,4,5,3])
}
