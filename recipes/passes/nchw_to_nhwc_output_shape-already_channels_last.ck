# SPDX-License-Identifier: Apache-2.0
# Left alone: the operands and results of a pooling already have channels last.

graph main(%x: f32[1,4,5,3]) -> %y {
  %y = MaxPool2D(%x) {padding: VALID, filter_height: 2, filter_width: 2, stride_h: 1, stride_w: 1}
}

rules {
  passes(nchw_to_nhwc_output_shape)
  unchanged()
  refused("is NHWC already, as an operator or a Transpose shows")
}
