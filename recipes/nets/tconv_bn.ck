# SPDX-License-Identifier: Apache-2.0
# A transposed convolution with the batch norm that follows it: three operators that are one.

model circle {version: 0, description: "transposed convolution, batch norm, RELU6"}
signature "serving_default" @main (image: %x) -> (result: %y)

graph main(%x: f32[1,2,2,1]) -> %y {
  %w = const f32[3,3,3,1] gaussian(0, 0.1)
  %1 = TransposeConv([1,4,4,3], %w, %x) {padding: VALID, stride_h: 1, stride_w: 1}  : f32[1,4,4,3]
  %2 = Mul(%1, [2.0, 1.5, 0.5])                                                     : f32[1,4,4,3]
  %y = Add(%2, [-2.0, 0.1, 0.0]) {act: RELU6}                                       : f32[1,4,4,3]
}

rules {
  passes(O1)
  order(TransposeConv, Relu6)
}
