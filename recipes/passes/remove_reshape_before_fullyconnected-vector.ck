# SPDX-License-Identifier: Apache-2.0
# Refused: %x: has shape [12], two dimensions or more are wanted

graph main(%x: f32[12]) -> %y {
  %w = const f32[5,12] gaussian(0, 0.3)
  %r = Reshape(%x, [1,12])
  %y = FullyConnected(%r, %w)
}

rules {
  passes(remove_reshape_before_fullyconnected)
  unchanged()
  refused("two dimensions or more")
}
