# SPDX-License-Identifier: Apache-2.0
# Refused: %a/rhs: shape is [2,1], expected [*,I|1]

graph main(%x: f32[2,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %a = Add(%x, [[1.0],[2.0]])
  %z = FullyConnected(%a, %w)
}

rules {
  passes(fuse_add_to_fullyconnected_bias)
  unchanged()
  refused("shape is [2,1]")
}
