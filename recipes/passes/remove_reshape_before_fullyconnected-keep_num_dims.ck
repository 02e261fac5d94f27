# SPDX-License-Identifier: Apache-2.0
# Refused: %y: keep_num_dims is True, expected False

graph main(%x: f32[2,1,3,4]) -> %y {
  %w = const f32[5,4] gaussian(0, 0.3)
  %r = Reshape(%x, [3,2,4])
  %y = FullyConnected(%r, %w) {keep_num_dims: true}
}

rules {
  passes(remove_reshape_before_fullyconnected)
  unchanged()
  refused("keep_num_dims is True")
}
