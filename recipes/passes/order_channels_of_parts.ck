# SPDX-License-Identifier: Apache-2.0
# Done: each layer computes first or last what the next one reads, so that no channel is shuffled.

graph main(%x: f32[1,6,6,4]) -> %y {
  %u = const f32[32,1,1,4] gaussian(0, 1)
  %v = const f32[32,3,3,4] gaussian(0, 1)
  %w = const f32[4,1,1,32] gaussian(0, 1)
  %z = const f32[5,1,1,36] gaussian(0, 1)
  %a = Conv2D(%x, %u)
  %b = Conv2D(%x, %v) {act: RELU}
  %c = Concatenation(%a, %b) {axis: 3}
  %r = Reshape(%c, [1, 6, 6, 2, 32])
  %t = Transpose(%r, [0, 1, 2, 4, 3])
  %s = Reshape(%t, [1, 6, 6, 64])
  %l, %h = Split(3, %s) {num_splits: 2}
  %d = Conv2D(%h, %w, [0.1, 0.2, 0.3, 0.4]) {act: RELU}
  %e = Concatenation(%l, %d) {axis: 3}
  %y = Conv2D(%e, %z, [0.1, 0.2, 0.3, 0.4, 0.5])
}

rules {
  passes(order_channels)
  ops(Conv2D: 4, Split: 2, Concatenation: 2, Transpose: 0, Reshape: 0)
}
