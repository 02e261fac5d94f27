# SPDX-License-Identifier: Apache-2.0
# Unchanged: NEG reads a variable, which may change before the product

graph main(%x: f32[1,2]) -> %z {
  %w = const f32[3,2] gaussian(0, 0.4)
  %r = const f32[3,3] gaussian(0, 0.4)
  %b = const f32[3] gaussian(0, 0.1)
  %hidden: f32[1,3] variable
  %n = Neg(%hidden)
  %y = Rnn(%x, %w, %r, %b, %hidden) {act: TANH}
  %j = Concatenation(%n, %y) {axis: 1}
  %z = Mul(%j, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
}

rules {
  passes(fuse_neg_with_factor)
  unchanged()
}
