# SPDX-License-Identifier: Apache-2.0
# Done: the weights and the bias of the layer are sliced.

graph main(%x: f32[2,16]) -> %y {
  %w = const f32[32,16] gaussian(0, 1)
  %b = const f32[32] gaussian(0, 1)
  %f = FullyConnected(%x, %w, %b)
  %y = StridedSlice(%f, [0, 4], [2, 8], [1, 2])
}

rules {
  passes(backward_slice)
  order(FullyConnected)
}
