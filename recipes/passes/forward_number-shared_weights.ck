# SPDX-License-Identifier: Apache-2.0
# Refused: %w: has other uses

graph main(%x: f32[1,5,4], %k: f32[1,2,3,5], %mask: f32[5,5]) -> %y, %n {
  %w = const f32[6,4] gaussian(0, 0.3)
  %b = const f32[6] gaussian(0, 1)
  %q = FullyConnected(%x, %w, %b) {keep_num_dims: true}
  %h = Reshape(%q, [1,5,2,3])
  %t = Transpose(%h, [0,2,1,3])
  %n = FullyConnected(%x, %w)
  %m = BatchMatMul(%t, %k)
  %d = Div(%m, 1.7320508)
  %y = Add(%d, %mask)
}

rules {
  passes(forward_number)
  unchanged()
  refused("%w: has other uses")
}
