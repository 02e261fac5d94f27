# SPDX-License-Identifier: Apache-2.0
# Done: %k, which the graph computes already, is the centered form of %e that the sum reads.

graph main(%x: f32[3,4]) -> %z, %k {
  %w = const f32[4,4] gaussian(0, 1)
  %e = Tanh(%x)
  %n = Mean(%e, [1]) {keep_dims: true}
  %k = Sub(%e, %n)
  %y = FullyConnected(%e, %w, none)
  %a = Add(%y, %e)
  %m = Mean(%a, [-1]) {keep_dims: true}
  %z = Sub(%a, %m)
}

rules {
  passes(fuse_mean_subtraction, common_subexpression_elimination)
  order(Tanh, Mean, Sub, FullyConnected, Add)
}
