# SPDX-License-Identifier: Apache-2.0
# Done: the layer norm and the layer compute one of eight rows.

graph main(%x: f32[1,8,16]) -> %y {
  %w = const f32[32,16] gaussian(0, 1)
  %m = Mean(%x, [-1]) {keep_dims: true}
  %d = Sub(%x, %m)
  %q = Mul(%d, %d)
  %v = Mean(%q, [-1]) {keep_dims: true}
  %e = Add(%v, 0.00001)
  %r = Rsqrt(%e)
  %n = Mul(%d, %r)
  %f = FullyConnected(%n, %w) {keep_num_dims: true}
  %y = Slice(%f, [0, 7, 0], [1, 1, 32])
}

rules {
  passes(backward_slice)
  order(Slice, Mean, Sub, Mul, Mean, Add, Rsqrt, Mul, FullyConnected)
}
