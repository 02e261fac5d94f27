# SPDX-License-Identifier: Apache-2.0
# Refused: %dyn: is not constant, expected const f32[*,O]

graph main(%x: f32[2,5,4], %dyn: f32[3]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %y = FullyConnected(%x, %w, %dyn) {keep_num_dims: true}
  %z = Add(%y, 1.0)
}

rules {
  passes(fuse_add_with_fully_connected)
  unchanged()
  refused("%dyn: is not constant")
}
