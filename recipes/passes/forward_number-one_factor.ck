# SPDX-License-Identifier: Apache-2.0
# Refused: its channels are also read elsewhere, and one factor is for all channels

graph main(%x: f32[1,5,12]) -> %y {
  %w = const f32[1] gaussian(0, 0.3)
  %qk = Mul(%x, %w)
  %h = Reshape(%qk, [1,5,2,2,3])
  %t = Transpose(%h, [2,0,3,1,4])
  %q, %k = Unpack(%t) {num: 2, axis: 0}
  %m = BatchMatMul(%q, %k) {adj_y: true}
  %y = Mul(%m, 0.5773)
}

rules {
  passes(forward_number)
  unchanged()
  refused("its channels are also read elsewhere")
}
