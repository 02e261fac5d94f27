# SPDX-License-Identifier: Apache-2.0
# Done: an offset and the mean of an image become one addend.

graph main(%x: f32[2,4]) -> %z {
  %m = Add(%x, 0.5)
  %z = Sub([0.1, 0.2, 0.3, 0.4], %m) {act: RELU}
}

rules {
  passes(fuse_add_with_add)
  order(Sub)
}
