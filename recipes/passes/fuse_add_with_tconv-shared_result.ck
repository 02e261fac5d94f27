# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is also read by Neg %o

graph main(%x: f32[1,5,4,2]) -> %z, %o {
  %w = const f32[3,2,3,2] gaussian(0, 1)
  %y = TransposeConv([1,10,8,3], %w, %x) {padding: SAME, stride_h: 2, stride_w: 2}
  %z = Add(%y, 0.5)
  %o = Neg(%y)
}

rules {
  passes(fuse_add_with_tconv)
  unchanged()
  refused("is also read by Neg")
}
