# SPDX-License-Identifier: Apache-2.0
# Refused: %hidden: is a variable, which may change before the rewrite would read it

graph main(%x: f32[1,2]) -> %z {
  %w = const f32[3,2] gaussian(0, 0.4)
  %r = const f32[3,3] gaussian(0, 0.4)
  %b = const f32[3] gaussian(0, 0.1)
  %hidden: f32[1,3] variable
  %o = Neg(%hidden)
  %y = Rnn(%x, %w, %r, %b, %hidden) {act: TANH}
  %z = Add(%y, %o)
}

rules {
  passes(fuse_neg)
  unchanged()
  refused("%hidden: is a variable, which may change before the rewrite would read it")
}
