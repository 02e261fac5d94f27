# SPDX-License-Identifier: Apache-2.0
# Done: a sum of layers, constants and rows of others has a mean of 0 where all its readers subtract it.

graph main(%x: f32[1,2,2,3]) -> %z {
  %f = const f32[4,1,1,3] gaussian(0, 1)
  %c = const f32[1,1,4] gaussian(0, 1)
  %p = const f32[5,4] gaussian(0, 1)
  %w = const f32[4,4] gaussian(0, 1)
  %patches = Conv2D(%x, %f, none)
  %rows = Reshape(%patches, [1, 4, 4])
  %tokens = Concatenation(%c, %rows) {axis: 1}
  %a = Add(%tokens, %p)
  %m = Mean(%a, [2]) {keep_dims: true}
  %d = Sub(%a, %m)
  %e = Exp(%d)
  %g = FullyConnected(%e, %w) {keep_num_dims: true}
  %s = Add(%a, %g)
  %first = StridedSlice(%s, [0, 0, 0], [1, 1, 4], [1, 1, 1])
  %n = Mean(%first, [-1]) {keep_dims: true}
  %z = Sub(%first, %n)
}

rules {
  passes(fuse_mean_subtraction)
  order(Conv2D, Reshape, Concatenation, Add, Exp, FullyConnected, Add, StridedSlice)
}
