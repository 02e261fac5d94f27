# SPDX-License-Identifier: Apache-2.0
# Done: (tconv(x, w) + b) + shift  ==  tconv(x, w) + (b + shift).

graph main(%x: f32[1,5,4,2]) -> %z {
  %w = const f32[3,2,3,2] gaussian(0, 1)
  %y = TransposeConv([1,10,8,3], %w, %x) {padding: SAME, stride_h: 2, stride_w: 2}
  %z = Add(%y, -0.5) {act: RELU}
}

rules {
  passes(fuse_add_with_tconv)
  format(tflite)
  order(TransposeConv)
}
