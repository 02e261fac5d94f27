# SPDX-License-Identifier: Apache-2.0
# Done: the factors of each row of %s are those of the four channels.

graph main(%x: f32[1,2,3,4]) -> %y {
  %w = const f32[4,1,1,4] gaussian(0, 1)
  %c = Conv2D(%x, %w, none) {padding: SAME}
  %s = Reshape(%c, [6,2,2])
  %y = Mul(%s, [[[1.0, 2.0], [3.0, 4.0]]])
}

rules {
  passes(forward_batchnorm)
  order(Conv2D, Mul, Reshape)
}
