# SPDX-License-Identifier: Apache-2.0
graph main(%x: f32[1,256,256,4]) -> %z {
  %image = const f32[1,256,256,1] constant(1.0)
  %filter = const f32[4,255,255,1] constant(1.0)
  %y = Conv2D(%image, %filter) {padding: SAME}
  %z = Add(%x, %y)
}
