# SPDX-License-Identifier: Apache-2.0
# Done: the layer itself reads its input as rows of the weights' depth.

graph main(%x: f32[2,1,3,4]) -> %y {
  %w = const f32[5,12] gaussian(0, 0.3)
  %r = Reshape(%x, [2,12])
  %y = FullyConnected(%r, %w) {act: RELU}
}

rules {
  passes(remove_reshape_before_fullyconnected)
  order(FullyConnected)
}
